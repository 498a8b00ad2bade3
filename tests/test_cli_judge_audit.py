"""``triage-gym judge audit``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from audit_rows import HOSTILE, SECRET, Scripted, row, window

from triage_gym import registry
from triage_gym.audit.auditing import audit
from triage_gym.audit.labels import Annotation, LabelledWindow, write_labels
from triage_gym.audit.page import MOST, render
from triage_gym.audit.text import amount, share, summary
from triage_gym.audit.verdict import on_r, verdicts
from triage_gym.cli.app import run
from triage_gym.cli.judge_audit import described
from triage_gym.display import cut
from triage_gym.errors import InputError, MissingDependency
from triage_gym.protocols import Judge
from triage_gym.statistics import Interval

GOLD = "RRRRNEDDEE"
WON = [True] * 5 + [False] * 5


def rows_of(gold: str = GOLD) -> list[LabelledWindow]:
    """Four R and an N in successes, an E in the first of two families, then failures."""
    return [
        replace(
            row(f"r{k}", role if role != "-" else None, WON[k % 10], ann=role),
            window=window(k, domain="alfworld" if k % 2 else "chess"),
            origin={"episode": k // 2},
        )
        for k, role in enumerate(gold)
    ]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder with ``rows.jsonl``, and a judge by the name of ``scripted``."""
    monkeypatch.chdir(tmp_path)
    write_labels("rows.jsonl", rows_of())
    monkeypatch.setitem(
        registry._registered["judges"],
        "scripted",
        lambda says="RRR-NEDDEE", sure=1.0: Scripted(says, [sure] * len(says)),
    )
    return tmp_path


def test_cells_and_statuses() -> None:
    judge = Scripted("RRN-NE?.EE", usage={"calls": 1, "usd": 0.5})
    found = audit(rows_of(), {"one": judge}, resamples=50)
    one, ann = found.raters
    cell = one.cell("R", "success")
    assert (cell.support, cell.given, cell.right) == (4, 2, 2)
    assert cell.f1 is not None
    assert cell.f1.estimate == pytest.approx(4 / 6)
    assert cell.recall_judged == pytest.approx(2 / 3)
    assert one.statuses == {"judged": 7, "failed": 1, "unsure": 1, "unjudged": 1}
    assert one.right is not None
    assert one.right.estimate == pytest.approx(6 / 7)
    assert one.cost is not None
    assert dict(one.cost.usage) == {"calls": 10.0, "usd": 5.0}, "what it had cost before is not counted"
    assert one.cost.per_thousand()["usd"] == 500.0
    assert one.cell("R", "success", "chess").support == 2
    assert ann.statuses["judged"] == 10
    assert ann.macro_f1 == 1.0
    assert ann.calibration is None
    assert found.with_gold("ann (in the file)").kappa is not None
    assert found.attempts == 5
    assert [(a.first, a.second) for a in found.agreements] == [
        ("one", "gold"),
        ("ann (in the file)", "gold"),
        ("one", "ann (in the file)"),
    ]
    assert found.disagreements() == [2]


def test_judges_see_windows_alone() -> None:
    judge = Scripted("R" * 10)
    audit(rows_of(), {"one": judge}, resamples=1)
    assert judge.seen == [r.window for r in rows_of()]


def test_a_judge_that_breaks_is_counted_as_failing() -> None:
    class Broken:
        def judge(self, windows: object) -> list[object]:
            raise RuntimeError("no answer")

    broken: Judge = Broken()  # type: ignore[assignment]
    found = audit(rows_of(), {"broken": broken}, resamples=5)
    assert found.raters[0].statuses["failed"] == 10
    assert found.raters[0].right is None
    assert "0 of 10 given, 10 failed (100 %)" in summary(found)
    assert "10 failed: Broken raised RuntimeError: no answer" in summary(found)


def test_nothing_to_audit() -> None:
    with pytest.raises(InputError, match="got none"):
        audit([], {"one": Scripted("")})
    with pytest.raises(InputError, match="--judge"):
        audit([row("a", gold="D")], {})


def test_without_gold_agreement_is_told() -> None:
    rows = [row(f"r{k}", ann=a, bob=b) for k, (a, b) in enumerate(["DD", "NN", "DN", "RR"])]
    text = summary(audit(rows, {}, resamples=50))
    assert "ann – bob" in text
    assert "0.75" in text
    assert "Key numbers" not in text
    assert "agreement is all that can be told" in render(audit(rows, {}, resamples=5))


def test_the_key_numbers_come_first(scripted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "audit", "rows.jsonl", "--judge", "scripted", "--resamples", "200"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    key = lines.index("Key numbers")
    assert key <= 5
    assert lines[key + 1].split() == ["n", "scripted", "ann", "(in", "the", "file)"]
    # Three of four R told, none wrong: F1 6/7.
    assert re.match(r"R in success, F1 +4 +0\.86 \[0\.\d\d, 1\.00\] +1\.00 \[", lines[key + 3])
    assert re.match(r"labelled +10 +90 % +100 %$", lines[key + 9])
    assert re.search(r"^chess +2 +1\.00 \[", out, re.MULTILINE)
    for block in ("roles and cells", "confusion", "cost of 1,000 segments: wall_seconds", "Agreement (Cohen's kappa)"):
        assert block in out
    assert "9 of 10 given, 1 failed (10 %)" in out
    assert "the same confidence throughout" in out


def test_several_judges_and_the_files(scripted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = '{"name": "scripted", "says": "RRRRNEDDEE", "sure": 0.9}'
    arguments = ["judge", "audit", "rows.jsonl", "--judge", "scripted", "--judge", spec, "--judge", "scripted"]
    assert run([*arguments, "--json", "out.json", "--html", "out.html", "--resamples", "100"]) == 0
    assert "scripted #2" in capsys.readouterr().out
    data = json.loads(Path("out.json").read_text())
    assert [r["name"] for r in data["raters"]] == ["scripted", "scripted #2", "scripted #3", "ann (in the file)"]
    first = data["raters"][0]
    assert first["scores"]["success"][3]["f1"]["estimate"] == pytest.approx(6 / 7)
    assert first["labels"][3]["why"] == "timed out"
    assert data["raters"][1]["calibration"]["bins"][0]["confidence"] == pytest.approx(0.9)
    assert data["gold"] == list(GOLD)
    assert str(SECRET) not in Path("out.json").read_text()
    again = json.loads(Path("out.json").read_text())
    run([*arguments, "--json", "out.json", "--resamples", "100"])
    for found in (data, again):
        for rater in found["raters"]:
            rater["cost_per_1000"] = None
    assert data == again, "the same seed gives the same numbers"


def test_the_gold_set_that_comes_along(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["judge", "audit", "gold", "--judge", "rule", "--judge", "oracle", "--resamples", "20"]) == 0
    out = capsys.readouterr().out
    n = int(re.match(r"gold: (\d+) segments of \d+ attempts, \1 with a gold role", out)[1])  # type: ignore[index]
    assert n >= 200
    found = re.search(r"^R in success, F1 +(\d+) +(\d\.\d\d) ", out, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 30
    assert float(found[2]) >= 0.8
    for family in ("alfworld", "minesweeper", "searchqa", "sokoban", "textworld", "webshop"):
        assert re.search(rf"^{family} +\d+ ", out, re.MULTILINE)


def test_an_annotator_may_stand_for_gold(scripted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels("plain.jsonl", [replace(r, gold="N") for r in rows_of()])
    assert run(["judge", "audit", "plain.jsonl", "--reference", "ann", "--judge", "scripted", "--json", "o.json"]) == 0
    out = capsys.readouterr().out
    assert "plain.jsonl, gold by ann: 10 segments of 5 attempts, 10 with a gold role" in out
    data = json.loads(Path("o.json").read_text())
    assert data["gold"] == list(GOLD)
    assert [r["name"] for r in data["raters"]] == ["scripted"]


@pytest.mark.parametrize(
    ("labels", "gold_by", "why"),
    [
        ({"me": "D"}, "me", "nobody else labelled"),
        ({"me": "D", "oracle": "N", "rule": "N"}, "me", "nobody else labelled"),
        ({"oracle": "D", "rule": "N"}, "oracle", "no person labelled"),
        ({"me": "D", "you": "D"}, None, "--reference NAME: me, you"),
        ({"rule": "D"}, None, "--reference NAME: rule"),
        ({"me": "D", "gold": "N"}, None, ""),
    ],
)
def test_who_stands_for_gold_where_there_is_none(
    scripted: Path, capsys: pytest.CaptureFixture[str], labels: dict[str, str], gold_by: str | None, why: str
) -> None:
    write_labels("mine.jsonl", [row("a", **labels)])
    judge = '{"name": "scripted", "says": "D"}'
    assert run(["judge", "audit", "mine.jsonl", "--judge", judge, "--json", "o.json", "--resamples", "5"]) == 0
    out = capsys.readouterr().out
    assert why in out.split("intervals")[0]
    assert (f"labels of {gold_by} for gold" in out) is (gold_by is not None)
    expected = "D" if gold_by else labels.get("gold")
    assert json.loads(Path("o.json").read_text())["gold"] == [expected]


def test_a_judge_without_a_label_is_said_first_and_fails(scripted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mute = '{"name": "scripted", "says": "----------"}'
    assert run(["judge", "audit", "rows.jsonl", "--judge", mute, "--json", "o.json", "--resamples", "5"]) == 1
    out = capsys.readouterr().out
    assert out == "judge scripted gave no label: 10 failed, all with: timed out\nnumbers: o.json\n"
    assert json.loads(Path("o.json").read_text())["raters"][0]["statuses"]["failed"] == 10
    assert run(["judge", "audit", "rows.jsonl", "--judge", mute, "--judge", "rule", "--resamples", "5"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("judge scripted gave no label: 10 failed, all with: timed out\n\n")
    assert "Key numbers" in out


def test_a_judge_that_lacks_a_package_is_asked_once(
    scripted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Lacking:
        asked = 0

        def judge(self, windows: object) -> list[object]:
            self.asked += 1
            raise MissingDependency("Expected torch; pip install 'triage_gym[lm]'")

    lacking = Lacking()
    monkeypatch.setitem(registry._registered["judges"], "lacking", lambda: lacking)
    assert run(["judge", "audit", "rows.jsonl", "--judge", "lacking"]) == 1
    assert capsys.readouterr().out.endswith("10 failed, all with: Expected torch; pip install 'triage_gym[lm]'\n")
    assert lacking.asked == 1


def test_what_cost_nothing_is_not_listed_and_long_reasons_end_in_an_ellipsis() -> None:
    judge = Scripted("RRRRNEDDEE", usage={"calls": 1, "retries": 0})
    text = summary(audit(rows_of(), {"one": judge}, resamples=5))
    assert "calls 1,000" in text
    assert "retries" not in text
    assert cut("one two three", 13) == "one two three"
    assert cut("one two three four", 13) == "one two…"
    assert cut("x" * 20, 5) == "xxxx…"


@pytest.mark.parametrize(
    ("low", "estimate", "high", "says"),
    [
        (0.94, 0.97, 0.99, "0.97: above the 0.86 of the judge that taught in the TRIAGE paper"),
        (0.70, 0.80, 0.90, "0.80: not told apart from the 0.86 "),
        (0.40, 0.50, 0.60, "0.50: below the 0.86 of the judge that taught in the TRIAGE paper, above the 0.29 "),
        (0.20, 0.30, 0.40, "0.30: not told apart from the 0.29 of the one that ended below GRPO there"),
        (0.00, 0.10, 0.20, "0.10: below the 0.29 "),
        (0.20, 0.60, 0.95, "0.60: too few segments to tell "),
    ],
)
def test_the_verdict_goes_by_the_interval(low: float, estimate: float, high: float, says: str) -> None:
    assert on_r(Interval(estimate, low, high, 9, "bootstrap")).startswith(says)


def test_the_verdict_is_the_last_word(scripted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["judge", "audit", "rows.jsonl", "--judge", "scripted", "--resamples", "50", "--html", "o.html"])
    last = capsys.readouterr().out.split("Verdict\n")[1]
    assert re.match(
        r"  scripted: R in success 0\.86: .+; E in failure 1\.00: .+ the 0\.82 that both of these exceed\n", last
    )
    assert last.splitlines()[0].strip() in Path("o.html").read_text(encoding="utf-8")
    won = [row("a", gold="D", success=True)]
    nothing = "not measured: no such segment has a gold role"
    (line,) = verdicts(audit(won, {"one": Scripted("D")}, resamples=5))
    assert line == f"one: R in success {nothing}; E in failure {nothing}"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["bad.jsonl", "--judge", "rule"], 1, "bad.jsonl:2"),
        (["empty.jsonl", "--judge", "rule"], 1, "got none"),
        (["bare.jsonl"], 1, "name one with --judge"),
        (["rows.jsonl", "--judge", "rul"], 1, "did you mean 'rule'"),
        (["rows.jsonl", "--judge", "{"], 1, "--judge to be a name or a JSON object"),
        (["rows.jsonl", "--judge", '{"domain": "x"}'], 1, '"name"'),
        (["rows.jsonl", "--resamples", "0"], 1, "at least 1 resample"),
        (["rows.jsonl", "--seed", "-1"], 1, "--seed"),
        (["rows.jsonl", "--bins", "0"], 1, "--bins"),
        (["rows.jsonl", "--reference", "eve"], 1, "one of the annotators ['ann'], got 'eve'"),
        (["rows.jsonl", "--reference", "ann"], 1, "name one with --judge"),
        (["rows.jsonl", "--html", "no/such/p.html"], 1, "no/such"),
        ([], 2, "judge audit --help"),
        (["rows.jsonl", "--jugde", "rule"], 2, "Perhaps you meant"),
    ],
)
def test_bad_input_is_one_clear_error(
    scripted: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    good = Path("rows.jsonl").read_text().splitlines()[0]
    Path("bad.jsonl").write_text(f"{good}\n{{}}\n")
    Path("empty.jsonl").write_text("")
    write_labels("bare.jsonl", [row("a", gold="D")])
    try:
        status = run(["judge", "audit", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    assert status == code
    err = capsys.readouterr().err
    assert says in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("rule", "rule"),
        ({"name": "rule", "domain": "generic"}, "rule(generic)"),
        ({"name": "cache", "of": {"name": "llm", "model": "m"}, "path": "x"}, "cache(llm(m))"),
        ({"name": "ensemble", "of": ["rule", {"name": "llm"}]}, "ensemble(rule, llm)"),
    ],
)
def test_judges_are_named_in_few_words(spec: object, name: str) -> None:
    assert described(spec) == name


def test_amounts_and_shares() -> None:
    assert [amount(x) for x in (0, 0.004, 3.14159, 1234.5, 12345.6)] == ["0", "0.004", "3.14", "1,234", "12,346"]
    assert [share(*x) for x in ((0, 9), (9, 9), (1, 1000), (999, 1000), (1, 3), (0, 0))] == [
        "0 %",
        "100 %",
        "0.1 %",
        "99.9 %",
        "33 %",
        "–",
    ]


class Tags(HTMLParser):
    """The tags and the attributes that run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.bad += [name for name, _ in attrs if name.startswith("on") or name in ("src", "style")]


def test_the_page_runs_and_loads_nothing() -> None:
    rows = [
        LabelledWindow(
            f"{HOSTILE}{k}",
            window(k, action=HOSTILE, task=HOSTILE),
            {HOSTILE.replace("\x1b", "").replace("\u202e", ""): Annotation("R", HOSTILE)},
            "D" if k % 2 else "N",
            True,
            0.5 * k,
            HOSTILE,
            {"episode": HOSTILE, "advantage": k},
        )
        for k in range(3)
    ]
    judge = Scripted(["D", "-", "N"], [0.9, 0.2, 0.7])
    page = render(audit(rows, {HOSTILE: judge}, source=HOSTILE, resamples=20))
    found = Tags()
    found.feed(page)
    assert "script" not in found.tags
    assert found.bad == []
    assert "default-src 'none'" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert str(SECRET) not in page, "facts are not shown"
    for section in ("Key numbers", "Agreement", "Where they differ", "failed: timed out", "corr(c, A*)"):
        assert section in page


def test_many_disagreements_are_thinned_out_and_counted() -> None:
    rows = [row(f"r{k:03}", gold="D", ann="N") for k in range(MOST + 50)]
    page = render(audit(rows, {}, resamples=5))
    assert page.count("<details>") == MOST
    assert f"{MOST + 50} of {MOST + 50} segments, of which {MOST} are shown here." in page
