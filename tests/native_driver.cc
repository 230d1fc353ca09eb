// Runs the native kernel for the sanitizers, with every instruction set that is here, from two
// threads at once, and compares with the definition in double precision.
#define HNCA_WITHOUT_XLA
#include "../src/hnca/kernels/native/bernoulli.cc"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

// A thread for each helper, some of which start too late: after the work is done.
struct Threads {
  std::vector<std::thread> all;
  int64_t num_threads() { return 4; }
  template <typename Task>
  void Schedule(Task task) { all.emplace_back(task); }
  ~Threads() { for (auto& thread : all) thread.join(); }
};

static double entropy(double z) { return std::log1p(std::exp(-std::fabs(z))) + std::fabs(z) / (1 + std::exp(std::fabs(z))); }
static double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z))); }

static void check(const hnca::Instructions& use, int B, int O, int I, float largest, bool with_entropy) {
  // On the heap, to the last byte: what is read or written beyond is found.
  std::mt19937 random(B + O + I);
  std::uniform_real_distribution<float> logit(-5, 5), far(-120, 120), size(-largest, largest);
  std::uniform_real_distribution<float> coin(0, 1);
  const int P = (B + hnca::EXAMPLES - 1) / hnca::EXAMPLES, E = (B + P - 1) / P;
  const auto at = [=](int b, int o) { return (b / E * O + o) * E + b % E; };
  std::vector<float> l(B * O), t(P * O * E), pull(P * O * E), slope(P * O * E), w(O * I), s(B * I);
  std::vector<float> chance(P * O * E), rest(P * O * E);
  std::vector<float> log_prob(B * I), entropies(B * I);
  for (int k = 0; k < B * O; k++) l[k] = k % 7 ? logit(random) : far(random);
  for (auto& x : pull) x = coin(random) < 0.5f ? -0.5f : 0.5f;
  for (int b = 0; b < B; b++) for (int o = 0; o < O; o++) {
    const float old = l[b * O + o], c = 1 / (1 + std::exp(-old)), r = 1 / (1 + std::exp(old));
    t[at(b, o)] = std::tanh(old / 2), slope[at(b, o)] = old * (4 * c * r);
    chance[at(b, o)] = c, rest[at(b, o)] = r;
  }
  for (auto& x : w) x = size(random);
  for (auto& x : s) x = coin(random) < 0.5f ? -1 : 1;
  hnca::Flip flip{l.data(), t.data(), pull.data(), chance.data(), rest.data(),
                  with_entropy ? slope.data() : nullptr, w.data(), s.data(), log_prob.data(),
                  with_entropy ? entropies.data() : nullptr, B, O, I, E};
  Threads threads;
  hnca::run(threads, flip, use);
  for (int b = 0; b < B; b++) for (int i = 0; i < I; i++) {
    double want = 0, moved = 0, terms = O;
    for (int o = 0; o < O; o++) {
      const double old = l[b * O + o], move = double(s[b * I + i]) * w[o * I + i];
      want += (pull[at(b, o)] + 0.5) * move - softplus(old + move) + softplus(old);
      moved += entropy(old + move) - entropy(old);
      terms += 2 * std::fabs(move);
    }
    const double error = std::fabs(log_prob[b * I + i] - want) +
                         (with_entropy ? std::fabs(entropies[b * I + i] - moved) : 0);
    if (!(error <= 28 * 1.2e-7 * terms)) {
      std::printf("%s: %d %d %d: off by %g\n", use.name, B, O, I, error);
      std::exit(1);
    }
  }
}

int main() {
  std::vector<hnca::Instructions> all{{"plain vectors", 4, hnca::plain::stripe}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    all.push_back({"AVX2", 8, hnca::avx2::stripe});
  if (__builtin_cpu_supports("avx512f")) all.push_back({"AVX-512", 16, hnca::avx512::stripe});
#endif
  for (const auto& use : all) {
    for (bool with_entropy : {false, true}) {
      auto several = [&] {
        for (auto [B, O, I] : {std::array{1, 1, 1}, {3, 7, 4}, {5, 103, 9}, {67, 65, 33}, {130, 16, 16}})
          for (float largest : {4.f, 30.f, 70.f, 300.f}) check(use, B, O, I, largest, with_entropy);
      };
      std::thread other(several);
      several();
      other.join();
    }
    std::printf("%s: ok\n", use.name);
  }
}
