"""The site as its readers meet it: built without a warning, in Chromium, on a desk and a phone."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "docs" / "_build" / "html"
CHROMIUM = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
in_chromium = pytest.mark.skipif(
    None in CHROMIUM.values(), reason="needs chromium and chromium-driver (Debian's packages)"
)
pytestmark = pytest.mark.slow
# What a page may not have: something that it loads from another host.
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]+src=.https?:|<link[^>]+href=.https?:")


@pytest.fixture(scope="module")
def pages():
    """The addresses of all pages. What was run before is not run again."""
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    usual = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    BUILT.mkdir(parents=True, exist_ok=True)
    with FileLock(BUILT.parent / "lock"):  # of other test processes
        done = subprocess.run(
            [*command, ROOT / "docs", BUILT], env=usual, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    found = sorted(path for path in BUILT.rglob("*.html") if "_modules" not in path.parts)
    assert len(found) > 15
    return found


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


def test_pages_load_nothing_from_elsewhere(pages):
    for page in pages:
        assert not LOADED.findall(page.read_text()), page
    for style in BUILT.rglob("*.css"):
        assert not re.findall(r"""url\(["']?https?:|@import""", style.read_text()), style


def test_equations_lead_to_their_lines(pages):
    links = re.findall(r'href="(_modules/[^"#]+)#([^"]+)"', (BUILT / "notation.html").read_text())
    assert len(links) > 8
    for page, name in links:
        assert f'id="{name}"' in (BUILT / page).read_text(), (page, name)


@in_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_pages_are_shown_well(pages, browser, width, scheme):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    for page in pages:
        browser.get(page.as_uri())
        assert browser.get_log("browser") == [], page
        seen = browser.execute_script("return document.documentElement.scrollWidth")
        assert seen <= width, f"{page} is {seen} wide"
        images = browser.find_elements(By.CSS_SELECTOR, "article img")
        shown = [image for image in images if image.is_displayed()]
        assert all(image.get_property("naturalWidth") > 0 for image in shown), page
    log = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [each for each in log if each["method"] == "Network.requestWillBeSent"]
    assert sent
    assert all(each["params"]["request"]["url"].startswith(("file:", "data:")) for each in sent)


@in_chromium
def test_search_works_without_a_network(pages, browser):
    browser.get(f"{(BUILT / 'search.html').as_uri()}?q=leave-one-out")
    browser.implicitly_wait(10)
    results = browser.find_elements(By.CSS_SELECTOR, "#search-results li a")
    assert len(results) > 2


@pytest.mark.parametrize("name", ["own_network", "own_objective"])
def test_notebooks_run(name):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    printed = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert printed
    assert not [out for out in printed if out["output_type"] == "error"]
