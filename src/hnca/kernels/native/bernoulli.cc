// ../bernoulli.py on a CPU: the same letters, the same factors, in registers. While weights are
// small, the tanh form does the work. With t = tanh(l/2), T = tanh(w/2), s = +-1, the change
// of sum_o log P(fired_o) is
//
//     s sum_o (fired_o - 1/2) w_o  -  sum_o log cosh(w_o/2)  -  log prod_o (1 + s t_o T_o)
//
// and every factor is taken times s: s + t T is one instruction, and the product's sign is dropped.
// After each GROUP of factors the exponent is set aside. The entropy's sum of fractions n/f is kept
// as one fraction N/P of which P is that product: N <- N f + n P, P <- P f.
//
// A row of weights of which one is beyond the tanh form's limit is left out there. The share form
// has the same factor without its cancellation: with c, r = sigmoid(l), sigmoid(-l) and A, B =
// sigmoid(w), sigmoid(-w), that is 1 + t T = 2 (c A + r B), and for s = -1 c and r trade places.
// Where even that is out of range, the plain form is added.
//
// A task is one stripe of columns (parent's units) for up to EXAMPLES examples. It takes the weights
// a few ROWS at a time: tanh(w/2) is computed once, and stays in the first cache for all examples.
// What it needs of these examples for that has its axes exchanged, [parts of the batch, O, examples]:
// what a row of weights meets lies side by side, so that a task needs one pointer, and few pages.
//
// The part between "#ifdef HNCA_LANES" and its end is compiled once for each instruction set, by
// this file including itself; which one runs is chosen by what the processor has.

#ifndef HNCA_LANES
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

namespace hnca {

constexpr float TANH_LIMIT = 4;    // on |w|, as in ../bernoulli.py
constexpr float SHARE_LIMIT = 70;  // A is far above e^-87, the least c
constexpr float ROOM = 80;  // a product of factors may come to e^-80; below e^-87 it is not normal
constexpr int GROUP = 16;  // factors of at least 1 - tanh(2) = 0.036: their product is normal
constexpr int ROWS = 64;
constexpr int EXAMPLES = 64;

struct Flip {
  const float* logits;   // [B, O]  l
  const float* t;        // [P, O, E]  tanh(l/2)
  const float* pull;     // [P, O, E]  fired - 1/2, or NaN
  const float* chance;   // [P, O, E]  c
  const float* rest;     // [P, O, E]  r
  const float* slope;    // [P, O, E]  l (1 - t^2), or null: no entropy
  const float* weight;   // [O, I]
  const float* sign;     // [B, I]
  float* log_prob;       // [B, I]
  float* entropy;        // [B, I], or null
  int64_t batch, outputs, inputs;
  int64_t examples;      // E, of a part: up to EXAMPLES

  // Where example number b of the part that begins with `example` meets a row of weights.
  int64_t at(int64_t example, int64_t row, int64_t b) const {
    return example * outputs + row * examples + b;
  }
};

// The plain form's functions: see `softplus_change` and `entropy` there.
inline double log_sigmoid(double x) {
  return std::min(x, 0.) - std::log1p(std::exp(-std::fabs(x)));
}
inline double softplus_change(double logit, double move) {
  const double rest = log_sigmoid(-logit), moved = log_sigmoid(logit) + move;
  if (rest == moved) return rest + std::log(2.);
  return std::max(moved, rest) + std::log1p(std::exp(-std::fabs(moved - rest)));
}
inline double entropy(double logit) {
  const double size = std::fabs(logit), less = std::exp(-size);
  return std::log1p(less) + size * less / (1 + less);
}

}  // namespace hnca

#if defined(__x86_64__)
#if defined(__clang__)
#define HNCA_TARGET_AVX2 \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma\"))), apply_to = function)")
#define HNCA_TARGET_AVX512 \
  _Pragma("clang attribute push(__attribute__((target(\"avx512f,fma\"))), apply_to = function)")
#define HNCA_TARGET_END _Pragma("clang attribute pop")
#else
#define HNCA_TARGET_AVX2 _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma\")")
#define HNCA_TARGET_AVX512 _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f,fma\")")
#define HNCA_TARGET_END _Pragma("GCC pop_options")
#endif

HNCA_TARGET_AVX512
#define HNCA_LANES 16
#define HNCA_NAME avx512
#define HNCA_BLOCK 5
#define HNCA_ENTROPY_BLOCK 5
#include "bernoulli.cc"
HNCA_TARGET_END

HNCA_TARGET_AVX2
#define HNCA_LANES 8
#define HNCA_NAME avx2
#define HNCA_BLOCK 4
#define HNCA_ENTROPY_BLOCK 2
#include "bernoulli.cc"
HNCA_TARGET_END
#endif

#define HNCA_LANES 4
#define HNCA_NAME plain
#define HNCA_BLOCK 4
#define HNCA_ENTROPY_BLOCK 2
#include "bernoulli.cc"

namespace hnca {

struct Instructions {
  const char* name;
  int64_t columns;  // of a stripe
  void (*stripe)(const Flip&, int64_t column, int64_t example, int64_t examples);
};

inline const Instructions& instructions() {
  static const Instructions chosen = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return Instructions{"AVX-512", 16, avx512::stripe};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return Instructions{"AVX2", 8, avx2::stripe};
#endif
    return Instructions{"plain vectors", 4, plain::stripe};
  }();
  return chosen;
}

// Every thread takes the next task that nobody has started; so does this one, which therefore only
// waits for tasks that somebody is at work on. A helper that comes too late finds none, and touches
// nothing but the counters, which it shares.
template <typename Pool>
void run(Pool& pool, const Flip& flip, const Instructions& use) {
  struct Counters {
    std::atomic<int64_t> next{0}, done{0};
  };
  auto counters = std::make_shared<Counters>();
  const int64_t stripes = (flip.inputs + use.columns - 1) / use.columns;
  const int64_t examples = flip.examples;
  const int64_t tasks = flip.batch ? stripes * ((flip.batch + examples - 1) / examples) : 0;
  auto work = [=, stripe = use.stripe, columns = use.columns] {
    for (int64_t task; (task = counters->next.fetch_add(1)) < tasks;) {
      const int64_t example = task / stripes * examples;
      stripe(flip, task % stripes * columns, example, std::min(examples, flip.batch - example));
      counters->done.fetch_add(1, std::memory_order_release);
    }
  };
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), tasks) - 1;
  for (int64_t helper = 0; helper < helpers; helper++) pool.Schedule([=] { work(); });
  work();
  while (counters->done.load(std::memory_order_acquire) < tasks) std::this_thread::yield();
}

}  // namespace hnca

#ifndef HNCA_WITHOUT_XLA
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32, 2>;
using Parts = ffi::Buffer<ffi::F32, 3>;

static ffi::Error checked_run(ffi::ThreadPool& pool, const Array& logits, const Parts& t,
                              const Parts& pull, const Parts& chance, const Parts& rest,
                              const Parts* slope, const Array& weight, const Array& sign,
                              Array& log_prob, Array* entropy) {
  const int64_t examples = t.dimensions()[2];
  if (examples > hnca::EXAMPLES) return ffi::Error::InvalidArgument("parts are too large");
  const size_t size = t.element_count();
  for (const Parts* other : {&pull, &chance, &rest, slope})
    if (other && other->element_count() != size)
      return ffi::Error::InvalidArgument("parts differ in size");
  const hnca::Flip flip{logits.typed_data(), t.typed_data(), pull.typed_data(),
                        chance.typed_data(), rest.typed_data(),
                        slope ? slope->typed_data() : nullptr, weight.typed_data(),
                        sign.typed_data(), log_prob.typed_data(),
                        entropy ? entropy->typed_data() : nullptr, sign.dimensions()[0],
                        weight.dimensions()[0], weight.dimensions()[1], examples};
  hnca::run(pool, flip, hnca::instructions());
  return ffi::Error::Success();
}

static ffi::Error bernoulli_flip(ffi::ThreadPool pool, Array logits, Parts t, Parts pull,
                                 Parts chance, Parts rest, Array weight, Array sign,
                                 ffi::Result<Array> log_prob) {
  return checked_run(pool, logits, t, pull, chance, rest, nullptr, weight, sign, *log_prob, nullptr);
}

static ffi::Error bernoulli_flip_entropy(ffi::ThreadPool pool, Array logits, Parts t, Parts pull,
                                         Parts chance, Parts rest, Parts slope, Array weight,
                                         Array sign, ffi::Result<Array> log_prob,
                                         ffi::Result<Array> entropy) {
  return checked_run(pool, logits, t, pull, chance, rest, &slope, weight, sign, *log_prob, &*entropy);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(hnca_bernoulli_flip, bernoulli_flip,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                                  .Arg<Array>().Arg<Parts>().Arg<Parts>().Arg<Parts>().Arg<Parts>()
                                  .Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(hnca_bernoulli_flip_entropy, bernoulli_flip_entropy,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()
                                  .Arg<Array>().Arg<Parts>().Arg<Parts>().Arg<Parts>().Arg<Parts>()
                                  .Arg<Parts>().Arg<Array>().Arg<Array>().Ret<Array>().Ret<Array>());

extern "C" const char* hnca_instructions() { return hnca::instructions().name; }
extern "C" const char* hnca_source() { return HNCA_SOURCE; }  // hash of the file it was made from
#endif

#else  // HNCA_LANES: once for each instruction set

namespace hnca::HNCA_NAME {

constexpr int LANES = HNCA_LANES;
constexpr int32_t SIGN_BIT = INT32_MIN;
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

struct Columns {  // of a few rows of weights, those of the tanh form
  int rows;
  int64_t row[ROWS];
  Floats half[ROWS], weight[ROWS], both[ROWS];  // T, w, w T
};

struct Beyond {  // a row with a weight beyond the tanh form's limit
  int64_t row;
  Floats weight, up, down;  // w, 2 A, 2 B
};

struct Sum {  // of one example
  Floats sign, product, linear, moved, plain;
  Ints exponent;
};

static inline Floats magnitude(Floats x) { return (Floats)((Ints)x & ~SIGN_BIT); }

// Whether all lanes of a mask are set.
static inline bool all_set(Ints mask) {
  int64_t halves[LANES / 2], all = -1;
  std::memcpy(halves, &mask, sizeof mask);
  for (int k = 0; k < LANES / 2; k++) all &= halves[k];
  return all == -1;
}

// Where a lane is within a limit; NaN is not.
static inline Ints within(Floats x, float limit) { return magnitude(x) <= limit; }

// x P(x^2) / Q(x^2), the ninth convergent of tanh's continued fraction x/(1 + x^2/(3 + ...)): all
// terms are positive; the error is 1e-10 at x = 2.
static inline Floats tanh(Floats x) {
  const Floats y = x * x;
  const Floats p = 34459425.f + y * (4729725.f + y * (135135.f + y * (990.f + y)));
  const Floats q = 34459425.f + y * (16216200.f + y * (945945.f + y * (13860.f + y * 45.f)));
  return x * (p / q);
}

// e^x for |x| <= 87: 2^k e^r with |r| <= log(2)/2.
static inline Floats exp(Floats x) {
  const Floats half = x < 0.f ? Floats{} - 0.5f : Floats{} + 0.5f;
  const Ints k = __builtin_convertvector(x * 1.44269504f + half, Ints);
  const Floats whole = __builtin_convertvector(k, Floats);
  const Floats r = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
  const Floats tail = 1.f / 24 + r * (1.f / 120 + r * (1.f / 720 + r * (1.f / 5040)));
  const Floats series = 1.f + r * (1.f + r * (0.5f + r * (1.f / 6 + r * tail)));
  return (Floats)((Ints)series + (k << 23));
}

// The exponent of a normal number is moved from `x`, which becomes a mantissa in [1, 2).
static inline void set_exponent_aside(Floats& x, Ints& exponent) {
  const Ints bits = (Ints)x & 0x7fffffff;
  exponent += (bits >> 23) - 127;
  x = (Floats)((bits & 0x7fffff) | 0x3f800000);
}

// log(x 2^exponent), x in [1, 2): by 2 artanh(r), r = (x - 1)/(x + 1), with x halved above sqrt 2.
static inline Floats log(Floats x, Ints exponent) {
  const Ints above = x > 1.41421356f;  // -1 if so
  x = (Floats)((Ints)x + (above << 23));
  exponent -= above;
  const Floats r = (x - 1.f) / (x + 1.f), y = r * r;
  const Floats series = 2.f + y * (2.f / 3 + y * (2.f / 5 + y * (2.f / 7 + y * (2.f / 9))));
  return __builtin_convertvector(exponent, Floats) * 0.693147181f + r * series;
}

static inline Floats load(const float* from, int64_t count) {
  Floats vector{};
  if (count == LANES) std::memcpy(&vector, from, sizeof vector);  // one instruction
  else std::memcpy(&vector, from, count * sizeof(float));
  return vector;
}

static inline void store(Floats vector, float* to, int64_t count) {
  if (count == LANES) std::memcpy(to, &vector, sizeof vector);
  else std::memcpy(to, &vector, count * sizeof(float));
}

// Multiplies the factors of some rows into the sums of NB examples at once.
template <bool ENTROPY, int NB>
static inline void multiply(const Flip& flip, const Columns& columns, int64_t example,
                            int64_t first, Sum* sums) {
  Floats sign[NB], product[NB], linear[NB], numerator[NB];
  for (int b = 0; b < NB; b++)
    sign[b] = sums[b].sign, product[b] = sums[b].product, linear[b] = sums[b].linear;
  for (int group = 0; group < columns.rows; group += GROUP) {
    for (int b = 0; b < NB; b++) numerator[b] = Floats{};
    for (int o = group; o < std::min(group + GROUP, columns.rows); o++) {
      const Floats half = columns.half[o], weight = columns.weight[o];
      const int64_t at = flip.at(example, columns.row[o], first);
      const float *t = flip.t + at, *pull = flip.pull + at;
      for (int b = 0; b < NB; b++) {
        const Floats factor = t[b] * half + sign[b];
        if (ENTROPY) {  // z tanh(z/2) - l tanh(l/2) = n / factor, at z = l + s w
          const Floats both = (Floats)((Ints)columns.both[o] ^ ((Ints)sign[b] & SIGN_BIT));  // s w T
          const Floats n = flip.slope[at + b] * half + (t[b] * weight + both);
          numerator[b] = numerator[b] * factor + n * product[b];
        }
        product[b] *= factor;
        linear[b] += pull[b] * weight;
      }
    }
    for (int b = 0; b < NB; b++) {
      if (ENTROPY) sums[b].moved += numerator[b] / product[b];
      set_exponent_aside(product[b], sums[b].exponent);
    }
  }
  for (int b = 0; b < NB; b++) sums[b].product = product[b], sums[b].linear = linear[b];
}

// The same for the rest of the examples, or the first NB of it.
template <bool ENTROPY, int NB>
static inline void multiply_rest(const Flip& flip, const Columns& columns, int64_t example,
                                 int64_t first, int64_t rest, Sum* sums) {
  if (rest >= NB) return multiply<ENTROPY, NB>(flip, columns, example, first, sums);
  if constexpr (NB > 1) multiply_rest<ENTROPY, NB - 1>(flip, columns, example, first, rest, sums);
}

// `multiply` by the share form, with so many factors in a group.
template <bool ENTROPY, int NB>
static inline void multiply_shares(const Flip& flip, const Beyond* beyond, int rows, int group,
                                   int64_t example, int64_t first, Sum* sums) {
  Floats product[NB], linear[NB], moved[NB];
  Ints is_up[NB];
  for (int b = 0; b < NB; b++) {
    product[b] = sums[b].product, linear[b] = sums[b].linear, moved[b] = Floats{};
    is_up[b] = sums[b].sign > 0.f;
  }
  for (int start = 0; start < rows; start += group) {
    for (int k = start; k < std::min(start + group, rows); k++) {
      const Floats up = beyond[k].up, down = beyond[k].down, weight = beyond[k].weight;
      const int64_t at = flip.at(example, beyond[k].row, first);
      for (int b = 0; b < NB; b++) {
        const Floats fires = flip.chance[at + b] * (is_up[b] ? up : down);
        const Floats rests = flip.rest[at + b] * (is_up[b] ? down : up);
        const Floats factor = fires + rests;
        if (ENTROPY) {  // z tanh(z/2) - l tanh(l/2), at z = l + s w, times s
          const Floats more = 0.5f * (up - down);
          moved[b] += (weight * (fires - rests) + flip.slope[at + b] * more) / factor;
        }
        product[b] *= factor;
        linear[b] += flip.pull[at + b] * weight;
      }
    }
    for (int b = 0; b < NB; b++) set_exponent_aside(product[b], sums[b].exponent);
  }
  for (int b = 0; b < NB; b++) {
    sums[b].product = product[b], sums[b].linear = linear[b];
    if (ENTROPY) sums[b].moved += sums[b].sign * moved[b];
  }
}

// Rows of the share form, multiplied into the sums of all examples.
template <bool ENTROPY>
static void share_rows(const Flip& flip, const Beyond* beyond, int rows, int64_t example,
                       int64_t examples, Sum* sums) {
  constexpr int NB = 2;
  float largest = TANH_LIMIT;  // a factor is e^-|w| at least
  for (int k = 0; k < rows; k++)
    for (int lane = 0; lane < LANES; lane++)
      largest = std::max(largest, std::fabs(beyond[k].weight[lane]));
  const int group = ROOM / largest;
  int64_t b = 0;
  for (; b + NB <= examples; b += NB)
    multiply_shares<ENTROPY, NB>(flip, beyond, rows, group, example, b, sums + b);
  for (; b < examples; b++)
    multiply_shares<ENTROPY, 1>(flip, beyond, rows, group, example, b, sums + b);
}

// One row in log space: right at any size, and slow.
template <bool ENTROPY>
static void plain_row(const Flip& flip, int64_t row, Floats weight, int64_t example,
                      int64_t examples, Sum* sums) {
  for (int64_t b = 0; b < examples; b++) {
    Sum& sum = sums[b];
    const double logit = flip.logits[(example + b) * flip.outputs + row];
    for (int k = 0; k < LANES; k++) {
      const double move = double(sum.sign[k]) * weight[k];
      sum.plain[k] += softplus_change(logit, move) - move / 2;
      if (ENTROPY) sum.moved[k] -= 2 * (hnca::entropy(logit + move) - hnca::entropy(logit));
    }
    sum.linear += flip.pull[flip.at(example, row, b)] * weight;
  }
}

struct Constants {  // of the columns, whatever the example
  Floats inverse;  // product of 1 / cosh^2(w/2) = 1 - T^2 = 4 A B
  Ints exponent;
};

// A row beyond the tanh form's limit, for the share form: false if it is beyond that one's too.
static inline bool prepare_beyond(Beyond& row, Constants& constants) {
  if (!all_set(within(row.weight, SHARE_LIMIT))) return false;
  const Floats less = exp(Floats{} - magnitude(row.weight));
  const Floats large = 2.f / (1.f + less), small = less * large;
  row.up = row.weight > 0.f ? large : small, row.down = row.weight > 0.f ? small : large;
  constants.inverse *= row.up * row.down;
  set_exponent_aside(constants.inverse, constants.exponent);
  return true;
}

// The weights of some rows, and what they add to the constants. Those beyond the tanh form's limit
// are listed apart: their number is returned.
static inline int prepare(const Flip& flip, int64_t row, int rows, int64_t column, int64_t width,
                          Columns& columns, Constants& constants, Beyond* beyond) {
  Floats weights[ROWS];
  Ints is_small = Ints{} - 1;
  for (int o = 0; o < rows; o++) {
    weights[o] = load(flip.weight + (row + o) * flip.inputs + column, width);
    is_small &= within(weights[o], TANH_LIMIT);
  }
  const bool all_small = all_set(is_small);
  int count = 0, small = 0;
  for (int o = 0; o < rows; o++) {
    const Floats weight = weights[o];
    if (!all_small && !all_set(within(weight, TANH_LIMIT))) {
      beyond[count++] = {row + o, weight, Floats{}, Floats{}};
      continue;
    }
    const Floats half = tanh(weight * 0.5f);
    columns.row[small] = row + o, columns.weight[small] = weight;
    columns.half[small] = half, columns.both[small] = weight * half;
    constants.inverse *= 1.f - half * half;  // at least 0.07
    if (++small % GROUP == 0) set_exponent_aside(constants.inverse, constants.exponent);
  }
  columns.rows = small;
  set_exponent_aside(constants.inverse, constants.exponent);
  return count;
}

template <bool ENTROPY, int NB>
static void stripe_of(const Flip& flip, int64_t column, int64_t example, int64_t examples) {
  const int64_t width = std::min<int64_t>(LANES, flip.inputs - column);
  const Floats one = Floats{} + 1.f;
  Sum sums[EXAMPLES];
  for (int64_t b = 0; b < examples; b++) {
    const int64_t at = (example + b) * flip.inputs + column;
    sums[b] = {load(flip.sign + at, width), one, Floats{}, Floats{}, Floats{}, Ints{}};
  }
  Columns columns;
  Constants constants{one, Ints{}};
  Beyond beyond[ROWS];
  for (int64_t row = 0; row < flip.outputs; row += ROWS) {
    const int rows = std::min<int64_t>(ROWS, flip.outputs - row);
    const int count = prepare(flip, row, rows, column, width, columns, constants, beyond);
    for (int64_t b = 0; b < examples; b += NB)
      multiply_rest<ENTROPY, NB>(flip, columns, example, b, examples - b, sums + b);
    int shared = 0;
    for (int k = 0; k < count; k++) {
      if (prepare_beyond(beyond[k], constants)) beyond[shared++] = beyond[k];
      else plain_row<ENTROPY>(flip, beyond[k].row, beyond[k].weight, example, examples, sums);
    }
    share_rows<ENTROPY>(flip, beyond, shared, example, examples, sums);
  }
  const Floats log_cosh = log(constants.inverse, constants.exponent) * -0.5f;
  for (int64_t b = 0; b < examples; b++) {
    const Sum& sum = sums[b];
    const Floats change = log(sum.product, sum.exponent) + log_cosh;
    const int64_t at = (example + b) * flip.inputs + column;
    store(sum.sign * sum.linear - (change + sum.plain), flip.log_prob + at, width);
    if (ENTROPY) store(change - 0.5f * sum.moved, flip.entropy + at, width);
  }
}

static void stripe(const Flip& flip, int64_t column, int64_t example, int64_t examples) {
  if (flip.entropy) stripe_of<true, HNCA_ENTROPY_BLOCK>(flip, column, example, examples);
  else stripe_of<false, HNCA_BLOCK>(flip, column, example, examples);
}

}  // namespace hnca::HNCA_NAME

#undef HNCA_LANES
#undef HNCA_NAME
#undef HNCA_BLOCK
#undef HNCA_ENTROPY_BLOCK
#endif
