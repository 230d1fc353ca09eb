"""The report's page as its readers meet it: in Chromium, with a pointer, a keyboard, a phone."""

import json
import shutil

import pytest
from made_up_runs import make_run
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from hnca.lab.experiments import VAE, Bandit
from hnca.lab.report import find_runs, read_runs, write_report

CHROMIUM = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
pytestmark = pytest.mark.skipif(
    None in CHROMIUM.values(), reason="needs chromium and chromium-driver (Debian's packages)"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a page with all kinds of things on it."""
    place = tmp_path_factory.mktemp("page")
    for seed in (0, 1):
        for method in ("hnca", "reinforce+baseline"):
            settings = {"estimator": method, "seed": seed}
            make_run(place / "runs" / f"b-{method}-{seed}", Bandit(epochs=30, **settings))
            make_run(place / "runs" / f"v-{method}-{seed}", VAE(epochs=30, layers=2, **settings))
    make_run(place / "runs" / f"{'long-' * 20}name", Bandit(epochs=30, seed=2), done=3)
    make_run(place / "runs" / "</script><b>", Bandit(epochs=30, seed=3)).config.write_text("{")
    write_report(read_runs(find_runs([place / "runs"])), place / "report")
    return (place / "report" / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    """Headless, and with a record of what it asks for."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM["chromium"]
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(CHROMIUM["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    """The page on a desk, freshly loaded."""
    resize(browser, 1200, mobile=False)
    browser.get(page)
    return browser


def resize(browser, width: int, mobile: bool) -> None:
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def all_of(browser, selector: str):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def labels(browser) -> list[str]:
    return [line.get_attribute("data-label") for line in all_of(browser, "#chart .line")]


def values(browser):
    return browser.find_element(By.ID, "values")


def test_it_loads_in_silence_and_asks_for_nothing_else(opened, page):
    assert opened.get_log("browser") == []
    log = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    sent = [each for each in log if each["method"] == "Network.requestWillBeSent"]
    asked = {each["params"]["request"]["url"] for each in sent}
    assert page in asked
    assert {url for url in asked if not url.startswith("data:")} == {page}
    assert all(image.get_property("naturalWidth") > 0 for image in all_of(opened, "img"))


def test_methods_are_hidden_and_shown(opened):
    unfinished = "hnca+baseline, seed 2 (unfinished: 3 of 30 epochs)"
    assert labels(opened) == ["hnca", unfinished, "reinforce+baseline"]
    button = all_of(opened, "#legend button")[0]
    assert "hnca (2 seeds)" in button.text
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert labels(opened) == [unfinished, "reinforce+baseline"]
    assert len(all_of(opened, "#chart .single")) == 2  # no band of two seeds
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    assert "hnca" in labels(opened)
    for each in all_of(opened, "#legend button"):
        each.click()
    assert "All lines are hidden" in opened.find_element(By.ID, "chart").text


def test_panels_and_metrics_are_chosen(opened):
    metrics = Select(opened.find_element(By.ID, "metric"))
    assert metrics.first_selected_option.text == "training accuracy"
    metrics.select_by_visible_text("ln variance, h2")
    assert len(labels(opened)) == 3
    Select(opened.find_element(By.ID, "panel")).select_by_visible_text(
        "vae, 2 layers, mnist, 30 epochs"
    )
    assert metrics.first_selected_option.text == "ln variance, h2"  # it is there as well
    assert labels(opened) == ["hnca", "reinforce+baseline"]
    assert opened.get_log("browser") == []


def test_values_are_read_by_pointer_and_by_keyboard(opened):
    chart = opened.find_element(By.ID, "chart")
    assert not values(opened).is_displayed()
    ActionChains(opened).move_to_element(chart).perform()
    assert values(opened).text.startswith("epoch 1")
    assert "reinforce+baseline" in values(opened).text
    assert "±" in values(opened).text
    ActionChains(opened).move_to_element(opened.find_element(By.TAG_NAME, "h1")).perform()
    assert not values(opened).is_displayed()
    chart.send_keys(Keys.ARROW_LEFT)
    last = values(opened).text
    chart.send_keys(Keys.ARROW_LEFT)
    assert values(opened).text.splitlines()[0] == "epoch 29"
    chart.send_keys(Keys.ARROW_RIGHT)
    assert values(opened).text == last
    Select(opened.find_element(By.ID, "span")).select_by_visible_text("second half")
    chart.send_keys(Keys.ARROW_LEFT, *[Keys.ARROW_LEFT] * 30)
    assert values(opened).text.splitlines()[0] == "epoch 15"


@pytest.mark.slow
def test_curves_by_time(opened):
    Select(opened.find_element(By.ID, "across")).select_by_visible_text("seconds")
    chart = opened.find_element(By.ID, "chart")
    chart.send_keys(Keys.ARROW_LEFT)
    heading, *rows = values(opened).text.splitlines()
    assert heading == "about 60 s"  # 30 epochs of 2 seconds
    assert rows
    assert "seconds of training" in chart.text
    for _ in range(99):
        chart.send_keys(Keys.ARROW_LEFT)
    assert values(opened).text.splitlines()[0] == "about 2 s"
    assert opened.get_log("browser") == []


def test_values_have_even_digits(opened):
    opened.find_element(By.ID, "chart").send_keys(Keys.ARROW_LEFT)
    shown = [each.text for each in all_of(opened, "#values b")]
    numbers = [number for text in shown for number in text.split(" ± ")]
    assert len(numbers) == 4
    assert {len(number.partition(".")[2]) for number in numbers} == {4}


def test_a_tap_keeps_its_values(opened):
    tap = """
        const chart = document.getElementById("chart"), box = chart.getBoundingClientRect();
        for (const name of ["pointerdown", "pointerup", "pointerleave"])
          chart.dispatchEvent(new PointerEvent(name, {
            pointerType: "touch", bubbles: true, clientX: box.x + 300, clientY: box.y + 50 }));
    """
    opened.execute_script(tap)
    before = values(opened).text
    assert before.startswith("epoch")
    resize(opened, 900, mobile=False)
    drawn = "return document.getElementById('chart').viewBox.baseVal.width"
    WebDriverWait(opened, 20).until(lambda browser: browser.execute_script(drawn) < 900)
    assert values(opened).text == before  # a page that is drawn anew keeps them too


def test_without_scripts_there_is_nothing_to_choose(browser, page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page)
        assert len(all_of(browser, "select")) == 4
        assert not any(each.is_displayed() for each in all_of(browser, "select"))
        assert browser.find_element(By.CSS_SELECTOR, "#figures img").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_figures_are_one_column_on_a_phone(opened):
    shape = "const image = document.querySelector('#figures img');"
    shape += "return image.naturalWidth / image.naturalHeight"
    assert opened.execute_script(shape) > 1
    resize(opened, 375, mobile=True)
    opened.refresh()
    assert opened.execute_script(shape) < 1
    shades = "return getComputedStyle(document.querySelector('.scroll')).backgroundAttachment"
    assert opened.execute_script(shades) == "local, local, scroll, scroll"


def column(browser, name: str) -> list[str]:
    heads = [head.text for head in all_of(browser, "#runs th")]
    place = next(i for i, head in enumerate(heads) if head.startswith(name)) + 1
    return [cell.text for cell in all_of(browser, f"#runs td:nth-child({place})")]


def test_tables_sort_by_click_and_by_key(opened):
    heads = all_of(opened, "#runs th")
    seed = next(head for head in heads if head.text.startswith("seed"))
    before = column(opened, "seed")
    seed.find_element(By.TAG_NAME, "button").click()
    assert seed.get_attribute("aria-sort") == "ascending"
    assert column(opened, "seed") == [*["0"] * 4, *["1"] * 4, "2", "-"]
    seed.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert seed.get_attribute("aria-sort") == "descending"
    assert column(opened, "seed") == ["2", *["1"] * 4, *["0"] * 4, "-"]
    assert before not in (column(opened, "seed"), column(opened, "seed")[::-1])
    status = next(head for head in heads if head.text.startswith("status"))
    status.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert seed.get_attribute("aria-sort") == "none"
    assert column(opened, "status")[-2:] == ["damaged", "unfinished"]


@pytest.mark.parametrize("width", [320, 375])
def test_nothing_overflows_on_a_phone(opened, width):
    resize(opened, width, mobile=True)
    opened.refresh()
    for panel in all_of(opened, "#panel option"):
        panel.click()
        assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    out = "return [...document.querySelectorAll('main > section, header, figure, .scroll, #chart')]"
    right = f"{out}.map(each => each.getBoundingClientRect().right)"
    assert max(opened.execute_script(right)) <= width
    chart = opened.find_element(By.ID, "chart")
    ActionChains(opened).move_to_element_with_offset(chart, 100, 0).perform()
    box = values(opened).rect
    assert values(opened).is_displayed()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
