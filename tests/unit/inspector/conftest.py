"""A headless browser, where the system has one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1400,900",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no network
)


class Browser:
    """A page in the browser, with what the tests ask of it."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, path: Path) -> None:
        self.driver.get_log("browser")  # forgets what other pages wrote
        self.driver.get(path.as_uri())

    def script(self, text: str, *values: object) -> Any:
        return self.driver.execute_script(text, *values)

    def text(self, selector: str) -> str:
        return str(self.script("return document.querySelector(arguments[0]).textContent", selector))

    def type(self, selector: str, text: str) -> None:
        self.script(
            "var e = document.querySelector(arguments[0]); e.focus(); e.value = arguments[1]; "
            "e.dispatchEvent(new Event('input', {bubbles: true}))",
            selector,
            text,
        )

    def click(self, x: float, y: float) -> None:
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        builder = ActionBuilder(self.driver)
        builder.pointer_action.move_to_location(int(x), int(y)).click()
        builder.perform()

    def use_dark(self, is_dark: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def errors(self) -> list[str]:
        """What the browser wrote to its console about mistakes."""
        levels = ("SEVERE", "WARNING")
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] in levels]


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="pip install selenium runs the tests in a browser"
    )
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    service = shutil.which("chromedriver")
    if program is None or service is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver runs these tests")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in OPTIONS:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield made
    made.quit()


@pytest.fixture
def browser(driver) -> Iterator[Browser]:
    page = Browser(driver)
    page.use_dark(False)
    yield page
    page.use_dark(False)
