"""The site: it is built strictly, its links lead somewhere, and a browser shows and searches it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from threading import Thread
from urllib.parse import unquote, urldefrag

import pytest
from conftest import environment

from wherelint import docs, rules

CONFIGURATION = Path(docs.__file__).parent / "mkdocs.yml"
#: What is asked of the pages, in frames: the browser sends the answers to the server.
ASKING = """
<body><script>
const said = {wide: []};
const open = (url, width) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.onload = () => done(frame);
  frame.src = url;
  document.body.append(frame);
});
const until = async ask => {
  for (let i = 0; i < 400 && !ask(); i++) await new Promise(done => setTimeout(done, 50));
  return ask();
};
addEventListener("load", async () => {
  for (const url of PAGES) {
    const frame = await open(url, 360);
    if (frame.contentDocument.documentElement.scrollWidth > 360) said.wide.push(url);
    frame.remove();
  }
  const page = (await open("index.html", 1200)).contentDocument;
  const query = page.querySelector("[data-md-component=search-query]");
  query.focus();
  query.value = "WL103";
  query.dispatchEvent(new Event("keyup"));
  said.found = await until(() => page.querySelector(".md-search-result__link")?.getAttribute("href"));
  await fetch("/said", {method: "POST", body: JSON.stringify(said)});
});
</script></body>"""


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {values.get("id") or "", values.get("name") or ""}
        if link := values.get("href") or values.get("src"):
            (self.links if tag == "a" else self.loaded).add(link)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site that was built."""
    if find_spec("mkdocs") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("mkdocs is not installed, and CI=true")
        pytest.skip("mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", CONFIGURATION, "-d", folder]
    ran = subprocess.run(command, env=environment() | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """The pages of a site, but the one that stands in for those that are not there."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_topic_and_rule_has_a_page(site: Path, pages: dict[Path, Page]) -> None:
    names = {path.parent.name for path in pages} | {"start"}
    assert {*docs.topics(), *rules.codes()} <= names
    assert len(list(site.glob("rules/*.svg"))) > 15
    assert "--exit-non-zero-on-fix" in (site / "usage/command-line/index.html").read_text("utf-8")


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            target, anchor = urldefrag(unquote(link))
            if not re.match("https?:|data:|javascript:", target):
                file = (path.parent / target).resolve() if target else path
                file = file / "index.html" if file.is_dir() else file
                if not file.exists() or (anchor and anchor not in pages[file].anchors):
                    broken.append((path, link))
    assert broken == []


def test_nothing_is_loaded_from_another_host(pages: dict[Path, Page]) -> None:
    assert {link for page in pages.values() for link in page.loaded if re.match("(https?:)?//", link)} == set()


class Server(ThreadingHTTPServer):
    """Hands out a site, and waits for what a browser says of it."""

    def __init__(self, site: Path) -> None:
        self.said: Queue[bytes] = Queue()
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(site)))


class _Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.said.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def test_a_browser_shows_and_searches_it(chromium: str, site: Path, pages: dict[Path, Page], tmp_path: Path) -> None:
    urls = json.dumps(sorted(path.relative_to(site).as_posix() for path in pages))
    (site / "asking.html").write_text(f'<link rel="icon" href="data:,">{ASKING.replace("PAGES", urls)}')
    with Server(site) as server, (tmp_path / "log").open("w") as log:
        Thread(target=server.serve_forever, daemon=True).start()
        command = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--enable-logging=stderr", "--remote-debugging-port=0", f"--user-data-dir={tmp_path / 'profile'}",
            f"http://127.0.0.1:{server.server_port}/asking.html",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as browser:
            try:
                said = json.loads(server.said.get(timeout=180))
            finally:
                os.killpg(browser.pid, signal.SIGTERM)
        server.shutdown()
    assert [line for line in (tmp_path / "log").read_text().splitlines() if "CONSOLE" in line] == []
    assert said["wide"] == []
    assert "rules/WL103/" in said["found"]
