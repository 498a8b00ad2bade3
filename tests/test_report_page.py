"""No text from outside can become a tag, a script or a request of the page, and the page has everything it should."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.report import charts
from triage_gym.report.arms import describe, order, slot
from triage_gym.report.markup import element, island, raw
from triage_gym.report.model import Curve, Difference, Episode, Estimate, Report, RoleMix, Row
from triage_gym.report.page import render
from triage_gym.report.text import summary

XSS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</ScRiPt ><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "<iframe src='http://example.com'></iframe>",
    "<!-- -->",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "<style>*{display:none}</style>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<base href=//example.com>",
    "<meta http-equiv=refresh content='0;url=//example.com'>",
    "<link rel=stylesheet href=//example.com/x.css>",
    "<object data=//example.com></object>",
    "<embed src=//example.com>",
    "<form action=//example.com><input name=a></form>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)></video>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<template><script>alert(1)</script></template>",
    "<a href='javascript:alert(1)'>x</a>",
    "<x onclick=alert(1) tabindex=1>",
    "\u2028alert(1)\u2029",
    "\x00<script>alert(1)</script>",
    "\x1b]8;;http://example.com\x07link\x1b]8;;\x07",
    "\u202e<tpircs>",
    "\ud800<script>",
    "\\u003cscript\\u003e",
    "${alert(1)}{{7*7}}",
    "__proto__",
    "]]>",
    "<body onload=alert(1)>",
]


def estimate(mean: float, half: float | None = 0.05, seeds: int = 3) -> Estimate:
    return Estimate(mean, half, tuple((s, mean + 0.01 * (s - 1)) for s in range(seeds)))


def make(text: str = "put a mug in the desk", arms: tuple[str, ...] = ("grpo+whiten", "triage")) -> Report:
    segments = tuple(Segment(i, f"before {text}", f"go {i} {text}", f"after {text}") for i in range(4))
    labels = tuple(RoleLabel(i, role, why=f"why {text}", source="rule") for i, role in enumerate("DEN"))
    labels = (*labels, RoleLabel(3, None, status="failed", why=text))
    record = EpisodeRecord("g", task_id=text, task=text, start_observation=text, segments=segments, labels=labels)
    lost = EpisodeRecord("g", task=text, segments=segments, labels=labels, success=True, error=text)
    curve = [Curve(a, (0.0, 500.0, 1000.0), (0.1, 0.5, 0.8), (0.0, 0.4, 0.7), (0.2, 0.6, 0.9), 3) for a in arms]
    return Report(
        title=text,
        facts=((text, text),),
        arms=tuple(describe(a) for a in arms),
        reference=arms[0],
        rows=tuple(Row(a, estimate(0.8), estimate(0.9), estimate(12.0), None) for a in arms),
        differences=(Difference(arms[-1], estimate(0.1), estimate(-9.0), None),),
        held_out=tuple(curve),
        training=tuple(curve),
        lengths=tuple(curve),
        roles=tuple(RoleMix(a, (500.0, 1000.0), dict.fromkeys("DENR", (0.25, 0.25))) for a in arms),
        episodes=(
            Episode(arms[0], 0, record, (1.0, -0.5, 0.25, 0.0), 3, 400, text),
            Episode(arms[-1], 1, lost, None, None, None, ""),
        ),
        episodes_total=9,
        caveats=(text,),
        warnings=(text,),
        notices=(text,),
        config={text: text, "limit": 30},
        command=text,
    )


class Tree(HTMLParser):
    """Every tag with its attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.words: list[str] = []
        self.comments: list[str] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs)) if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.raw.append((*self._open, data))
            self._open = None
        else:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def skeleton(page: str) -> list[tuple[str, list[str]]]:
    return [(tag, sorted(attributes)) for tag, attributes in Tree(page).tags]


def data_of(page: str) -> dict[str, object]:
    (text,) = [t for tag, a, t in Tree(page).raw if tag == "script" and a.get("id") == "data"]
    found: dict[str, object] = json.loads(text)
    return found


PLAIN = skeleton(render(make()))


@pytest.mark.parametrize("text", XSS)
def test_hostile_text_adds_no_tag_and_no_attribute(text: str) -> None:
    page = render(make(text))
    assert skeleton(page) == PLAIN
    assert not Tree(page).comments
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]", page)
    page.encode("utf-8")


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_no_text_at_all_changes_the_tags(text: str) -> None:
    page = render(make(text or "x"))
    assert skeleton(page) == PLAIN
    page.encode("utf-8")


def test_hostile_text_is_still_readable() -> None:
    page = render(make(XSS[0]))
    assert any(XSS[0] in word for word in Tree(page).words)
    episode = data_of(page)["episodes"][0]  # type: ignore[index]
    assert episode["g"] == XSS[0]
    assert episode["x"][0][0] == f"go 0 {XSS[0]}"


def test_the_policy_names_exactly_our_script_and_style() -> None:
    tree = Tree(render(make()))
    (policy,) = [
        a["content"] for tag, a in tree.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")

    def digest(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    scripts = [t for tag, a, t in tree.raw if tag == "script" and a.get("type") != "application/json"]
    styles = [t for tag, _, t in tree.raw if tag == "style"]
    assert len(scripts) == len(styles) == 1
    assert f"script-src '{digest(scripts[0])}'" in policy
    assert f"style-src '{digest(styles[0])}'" in policy
    assert "unsafe" not in policy


def test_the_page_loads_nothing_and_carries_no_inline_code() -> None:
    for tag, attributes in Tree(render(make())).tags:
        assert tag not in ("img", "iframe", "object", "embed", "form", "base", "video", "audio", "source")
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("style", "src", "action", "formaction", "srcset")
            if name == "href":
                assert value is not None
                assert value.startswith("#") or value == "data:,"
    script = next(t for tag, a, t in Tree(render(make())).raw if tag == "script" and "type" not in a)
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
        assert sink not in script


def test_every_control_has_a_name_and_every_chart_a_description() -> None:
    page = render(make())
    for tag, attributes in Tree(page).tags:
        if tag == "svg" and attributes.get("class") == "chart":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
    assert len(re.findall("<select", page)) == len(re.findall("<label[^>]*>[^<]*<select", page)) == 4
    assert re.search("<label[^>]*>[^<]*<input", page)


def test_a_page_without_anything_to_show_still_stands() -> None:
    empty = Report("A run", (), (describe("triage"),), None, ())
    page = render(empty)
    assert "No held-out evaluation has been written yet." in page
    assert 'id="episodes"' not in page


def test_the_terminal_summary_lets_no_escape_through() -> None:
    text = summary(make("\x1b[31mred"))
    assert "\x1b" not in text
    assert "GRPO + whitening" in text
    assert "+10.0 ± 5.0 (3 of 3 higher)" in text
    assert "−9.0 ± 0.1 (3 of 3 shorter)" in text


# ---- words ----


@pytest.mark.parametrize(
    ("mean", "half", "said"),
    [
        (0.1, 0.05, "TRIAGE solves more held-out games than GRPO + whitening"),
        (-0.1, 0.05, "TRIAGE solves fewer held-out games than GRPO + whitening"),
        (0.1, 0.2, "No difference shown between TRIAGE and GRPO + whitening"),
        (0.1, None, "TRIAGE against GRPO + whitening: one seed, no interval"),
    ],
)
def test_the_headline_says_what_the_interval_says(mean: float, half: float | None, said: str) -> None:
    report = make()
    changed = Difference("triage", Estimate(mean, half, ((0, mean),)), None, None)
    page = render(Report(report.title, (), report.arms, report.reference, report.rows, (changed,)))
    assert f"<h1>{said}</h1>" in page


@pytest.mark.parametrize(
    ("mean", "half", "count", "bold"),
    [
        (0.2, 0.05, "3 of 3 higher", True),
        (-0.2, 0.05, "3 of 3 lower", False),
        (-0.2, 0.5, "0 of 3 higher", False),
    ],
)
def test_a_loss_is_called_one_and_not_set_off(mean: float, half: float, count: str, bold: bool) -> None:
    report = replace(make(), differences=(Difference("triage", estimate(mean, half), None, None),))
    page = render(report)
    assert f"<small>{count}</small>" in page
    assert ('<tr class="chosen">' in page) is bold
    assert f"({count})" in summary(report)


def test_the_best_line_is_set_off_though_no_difference_is_shown() -> None:
    report = make()
    rows = (report.rows[0], replace(report.rows[1], success=estimate(0.9)))
    found = (Difference("triage", estimate(0.1, 0.5), None, None),)
    assert '<tr class="chosen">' in render(replace(report, rows=rows, differences=found))


def test_links_and_headings_have_the_same_names() -> None:
    page = render(make())
    nav = page[page.index("<nav") : page.index("</nav>")]
    assert re.findall(r">([^<]+)</a>", nav) == re.findall(r"<h2>([^<]+)</h2>", page)


# ---- markup ----


def test_an_island_cannot_be_left_early() -> None:
    text = island("data", {"a": "</script><!-- & \u2028 é"})
    assert text.count("<") == 2
    assert "&" not in text
    assert json.loads(text[text.index(">") + 1 : text.rindex("<")])["a"] == "</script><!-- & \u2028 é"


def test_an_island_refuses_what_is_no_json() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        island("data", float("nan"))


def test_raw_text_may_not_close_its_element() -> None:
    with pytest.raises(ValueError, match="no closing tag"):
        raw("script", "x</script>")


def test_elements_escape_text_and_attributes_but_not_elements() -> None:
    made = element("p", "a<b", element("b", 1), None, [2, "&"], class_="x", aria_label='"<', hidden=True, title=None)
    assert made == '<p class="x" aria-label="&quot;&lt;" hidden>a&lt;b<b>1</b>2&amp;</p>'


# ---- charts ----


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.0, 0.07, [0.0, 0.02, 0.04, 0.06, 0.08]),
        (0.0, 100_000.0, [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0]),
        (0.0, 0.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-3.0, 8.0, [-5.0, -2.5, 0.0, 2.5, 5.0, 7.5, 10.0]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low: float, high: float, expected: list[float]) -> None:
    assert charts.ticks(low, high) == pytest.approx(expected)


def test_a_line_goes_through_its_points() -> None:
    curve = Curve("triage", (0.0, 50.0, 100.0), (0.0, 0.5, 1.0), (0.0, 0.4, 0.9), (0.1, 0.6, 1.0), 3)
    drawn = charts.line_chart([curve], {"triage": 3}, identifier="x", label="x", percent=True)
    assert 'd="M0.0 1000.0L500.0 500.0L1000.0 0.0" class="line arm-3"' in drawn
    assert 'class="band arm-3"' in drawn
    alone = Curve("triage", (0.0, 100.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), 1)
    assert "band" not in charts.line_chart([alone], {"triage": 3}, identifier="x", label="x", percent=True)


def test_few_points_are_dots_and_few_seeds_are_thin_lines() -> None:
    def drawn(points: int, **more: Any) -> str:
        turns = tuple(25.0 * (i + 1) for i in range(points))
        line = (0.5,) * points
        curve = Curve("triage", turns, line, line, (1.0,) * points, 2, **more)
        return charts.line_chart([curve], {"triage": 3}, identifier="x", label="x", percent=True)

    assert 'cx="100.00%" cy="14.0" r="3.5" class="dot arm-3"' in drawn(1, seeds=(((25.0, 0.4),), ((25.0, 0.5),)))
    assert [drawn(n).count("<circle") for n in (1, 3, 4)] == [1, 3, 0]
    thin = drawn(4, seeds=(((25.0, 0.4), (100.0, 0.4)), ((25.0, 0.8), (100.0, 0.6))))
    assert thin.count('class="thin line arm-3"') == 2
    assert "band" not in thin
    assert 'd="M250.0 0.0L1000.0 250.0" class="thin' in thin
    assert drawn(4).count("band") == 1


def test_role_areas_fill_the_whole_height() -> None:
    mix = RoleMix("triage", (50.0, 100.0), {"D": (0.1, 0.2), "E": (0.4, 0.3), "N": (0.2, 0.2), "R": (0.3, 0.3)})
    drawn = charts.role_chart(mix, "x")
    assert re.findall(r'area role-(.)"', drawn) == list("DENR")
    assert re.findall(r'class="letter">(.)<', drawn) == list("DENR")
    assert 'd="M0.0 0.0L500.0 0.0L1000.0 0.0L' in drawn


def test_the_scale_of_differences_holds_every_seed_and_zero() -> None:
    low, high = charts.difference_scale([Estimate(0.2, 0.1, ((0, 0.05), (1, 0.5)))])
    assert low < 0.0
    assert high > 0.5


def test_known_arms_keep_their_look_and_their_order() -> None:
    names = ["zeta", "roles-only", "triage", "alpha", "grpo"]
    assert order(names) == ["grpo", "triage", "roles-only", "alpha", "zeta"]
    assert [slot(n, names) for n in order(names)] == [0, 3, 5, 6, 7]
    assert slot("triage", ["triage"]) == slot("triage", names)
