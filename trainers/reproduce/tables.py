"""A study as markdown, as text for the terminal, and as a page with its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.display import markdown_table, sanitize_line, table
from triage_gym.report.charts import whiskers
from triage_gym.report.document import columns, document, sheet
from triage_gym.report.markup import Markup, element
from triage_gym.statistics import Interval
from triage_gym.trainers.reproduce.measures import LENGTH, METRICS, PERCENT, SUCCESS
from triage_gym.trainers.reproduce.paper import SOURCE, beside

NONE: Final = "–"
HOW: Final = (
    "Success on held-out tasks at equal generated turns, commands drawn from the policy. ± is half of a 95 % t interval over "
    "seeds; IQM with a 95 % stratified percentile bootstrap over seeds. Length: tasks that both solve. Nothing corrects for "
    "the number of comparisons."
)
Rows = tuple[list[str], list[list[str]]]


def number(metric: str, mean: float, half: float | None, sign: str = "") -> str:
    """``58.1 ± 12.0``, shares as per cent."""
    factor = 100.0 if metric in PERCENT else 1.0
    digits = 2 if metric == "r_per_success" else 1
    shown = f"{factor * mean:{sign}.{digits}f}"
    return shown if half is None else f"{shown} ± {factor * half:.{digits}f}"


def arm_rows(study: Mapping[str, Any], env: str) -> Rows:
    """Title and rows of what each arm came to on one environment."""
    passes = _passes(study)
    metrics = [SUCCESS, *passes, "auc", "length_success", "r_per_success", "e_in_failures", "turns_per_success"]
    title = [
        "arm",
        "n",
        "success, %",
        "IQM, %",
        *(f"{name}, %" for name in passes),
        *(METRICS[m] for m in metrics[1 + len(passes) :]),
        "paper, %",
    ]
    rows = []
    for arm in study["arms"]:
        cells = study["summary"][env][arm["name"]]
        success = cells.get(SUCCESS)
        if success is None:
            failed = [run for run in study["failed"] if run["env"] == env and run["arm"] == arm["name"]]
            rows.append(
                [
                    _name(arm),
                    "0",
                    "failed" if failed else "not run",
                    *[NONE] * (len(title) - 4),
                    _paper(study, env, arm),
                ]
            )
            continue
        iqm = f"{100 * success['iqm']:.1f} [{100 * success['iqm_low']:.1f}, {100 * success['iqm_high']:.1f}]"
        rest = [
            NONE if cells.get(m) is None else number(m, cells[m]["mean"], cells[m]["half_width"]) for m in metrics[1:]
        ]
        rows.append(
            [
                _name(arm),
                str(success["n"]),
                number(SUCCESS, success["mean"], success["half_width"]),
                iqm,
                *rest,
                _paper(study, env, arm),
            ]
        )
    return title, rows


def _passes(study: Mapping[str, Any]) -> list[str]:
    """Success within more than one attempt, where tables tell of retries."""
    return ["pass@2", "pass@3"] if study["passes"] else []


def _name(arm: Mapping[str, Any]) -> str:
    return f"{arm['name']} (control)" if arm["control"] else str(arm["name"])


def _paper(study: Mapping[str, Any], env: str, arm: Mapping[str, Any]) -> str:
    return beside(study["table"], env, arm["name"]) or NONE


def pair_rows(study: Mapping[str, Any], env: str) -> Rows:
    """Title and rows of the paired differences on one environment."""
    baseline = study["baseline"]
    rows = []
    for arm in study["arms"]:
        found = study["paired"][env].get(arm["name"])
        if not found:
            continue
        success = found.get(SUCCESS)
        rows.append(
            [
                f"{arm['name']} − {baseline}",
                *(
                    NONE
                    if (d := found.get(metric)) is None
                    else f"{number(metric, d['mean'], d['half_width'], '+')} ({d['positive']}/{d['n']})"
                    for metric in (SUCCESS, *_passes(study), "auc", LENGTH, "r_per_success")
                ),
                NONE if success is None else ", ".join(f"{100 * v:+.1f}" for v in success["values"]),
            ]
        )
    passes = [f"{name}, points" for name in _passes(study)]
    return [
        "difference",
        "success, points",
        *passes,
        "training success, points",
        "length, %",
        "R per success",
        "success by seed",
    ], rows


def claim_rows(study: Mapping[str, Any]) -> Rows:
    """Title and rows of what was claimed."""
    rows = []
    for claim in study["claims"]:
        d = claim["difference"]
        shown = NONE if d is None else f"{number(claim['metric'], d['mean'], d['half_width'], '+')}, n {d['n']}"
        rows.append([claim["env"], claim["claim"], f"{claim['first']} − {claim['second']}", shown, claim["verdict"]])
    return ["environment", "claim", "difference", "measured", "verdict"], rows


def gate_rows(study: Mapping[str, Any]) -> Rows:
    """Title and rows of what the gate foretold for each judge, beside what training gained."""
    rows = []
    for gate in study["gate"]:
        d = gate["gain"]
        rows.append(
            [
                gate["env"],
                gate["judge"],
                f"{gate['corr_role']:+.3f}" if gate["corr_role"] is not None else NONE,
                f"{gate['corr_outcome']:+.3f}" if gate["corr_outcome"] is not None else NONE,
                NONE if gate["foretold"] is None else "gain" if gate["foretold"] else "no gain",
                NONE if d is None else number(SUCCESS, d["mean"], d["half_width"], "+"),
                NONE if gate["agrees"] is None else "yes" if gate["agrees"] else "no",
            ]
        )
    return ["environment", "judge", "corr(c, A*)", "corr(A_i, A*)", "foretold", "gain over baseline", "agrees"], rows


def over_rows(study: Mapping[str, Any]) -> Rows:
    """Title and rows over all environments together."""
    rows = []
    for name, found in study["over_envs"].items():
        d = found["paired"]
        iqm = found["iqm"]
        rows.append(
            [
                name,
                "0" if iqm is None else str(iqm["n"]),
                NONE if iqm is None else f"{100 * iqm['iqm']:.1f} [{100 * iqm['low']:.1f}, {100 * iqm['high']:.1f}]",
                NONE if d is None else f"{number(SUCCESS, d['mean'], d['half_width'], '+')} ({d['positive']}/{d['n']})",
            ]
        )
    return ["arm", "runs", "IQM of success, %", f"mean difference to {study['baseline']}, points"], rows


def blocks(study: Mapping[str, Any]) -> list[tuple[str, Rows]]:
    """Every table with its title."""
    out: list[tuple[str, Rows]] = []
    for env in study["envs"]:
        setting = study["settings"][env]
        demos = f", {setting['demos']} demonstrations" if setting["demos"] else ", random start"
        start = study["start"][env]
        shown = "" if start is None else f" (start solves {100 * start:.1f} %)"
        out.append((f"{env}: {setting['turns']:,} turns, limit {setting['limit']}{demos}{shown}", arm_rows(study, env)))
        out.append((f"{env}: differences to {study['baseline']}, seed by seed, 95 % t", pair_rows(study, env)))
    if len(study["envs"]) > 1:
        out.append(("all environments", over_rows(study)))
    if study["gate"]:
        out.append(("what the gate foretold", gate_rows(study)))
    out.append(("what the papers claim", claim_rows(study)))
    return out


def remarks(study: Mapping[str, Any]) -> list[str]:
    """What must be said beside the tables."""
    seeds = study["seeds"]
    done, of = study["done"], study["cells"]
    said = [
        f"n = {len(seeds)} seeds ({', '.join(map(str, seeds))}); {done} of {of} cells are done.",
        HOW,
        SOURCE,
    ]
    verdicts = [claim["verdict"] for claim in study["claims"]]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "does not hold", "undecided"))
    said.append(f"Claims: {counts} at this n.")
    if study["gate"]:
        known = [gate["agrees"] for gate in study["gate"] if gate["agrees"] is not None]
        said.append(f"The gate agrees with the sign of the gain in {sum(known)} of {len(known)} judges.")
    elif study["gate_asked"]:
        said.append("The gate was not measured: it is when the cells are done and time is left.")
    said += [f"failed: {run['env']}/{run['arm']}, seed {run['seed']}: {run['error']}" for run in study["failed"]]
    if done < of:
        said.append("Not all cells are done: the same command goes on where this one stopped.")
    return said


def as_text(study: Mapping[str, Any]) -> str:
    """For the terminal."""
    parts = [f"{sanitize_line(title)}\n{table(head, rows)}" for title, (head, rows) in blocks(study)]
    return "\n\n".join([*parts, "\n".join(sanitize_line(line) for line in remarks(study))])


def as_markdown(study: Mapping[str, Any]) -> str:
    """As a markdown file."""
    out = [f"# Table `{study['table']}`", "", f"`{study['command']}`", ""]
    for title, (head, rows) in blocks(study):
        out += [f"## {title}", "", markdown_table(head, rows), ""]
    out += ["## How to read it", "", *(f"- {sanitize_line(remark)}" for remark in remarks(study)), ""]
    return "\n".join(out)


def as_page(study: Mapping[str, Any]) -> str:
    """As one HTML page that loads nothing, the paired differences and those of the claims as its figures."""
    title = f"Table {study['table']}"
    figures: list[Markup] = []
    for env in study["envs"]:
        lines = []
        for arm in study["arms"]:
            colour = "role-N" if arm["control"] else "role-D"
            lines.append((arm["name"], "", colour, SUCCESS, study["paired"][env].get(arm["name"], {}).get(SUCCESS)))
        note = f"success less that of {study['baseline']}, points, seed by seed, 95 % t"
        figures.append(_figure(env, note, lines))
        lines = []
        for claim in study["claims"]:
            if claim["env"] == env and claim["metric"] in (*PERCENT, LENGTH):
                name = f"{claim['first']} − {claim['second']}"
                metric = {SUCCESS: "", LENGTH: "length, "}.get(claim["metric"], f"{claim['metric']}, ")
                remark = f"({metric}{claim['verdict']})"
                lines.append((name, remark, _VERDICTS[claim["verdict"]], claim["metric"], claim["difference"]))
        note = "differences that claims are about, points, for lengths per cent, seed by seed, 95 % t"
        figures.append(_figure(f"{env}: what the papers claim", note, lines))
    tables = [
        element("section", element("h2", heading), columns(head, rows)) for heading, (head, rows) in blocks(study)
    ]
    lead = [element("p", remark, class_="note") for remark in remarks(study)]
    main = element("main", element("h1", title), lead, figures, tables, class_="wrap")
    return document(title, main, style=sheet())


_VERDICTS: Final = {"holds": "role-D", "does not hold": "role-R", "undecided": "role-N"}
"""Classes of colours."""


def _figure(title: str, note: str, lines: Sequence[tuple[str, str, str, str, Mapping[str, Any] | None]]) -> Markup:
    """Differences below each other: name, remark, colour, metric and what was measured; without an interval none is drawn."""
    drawn = []
    for name, remark, colour, metric, d in lines:
        if d is not None and d["half_width"] is not None:
            factor = 100.0 if metric in PERCENT else 1.0
            mean, half = factor * d["mean"], factor * d["half_width"]
            drawn.append((name, remark, colour, Interval(mean, mean - half, mean + half, d["n"], "t")))
    none = element("p", "No intervals yet: no arm has two seeds in common with what it is held against.", class_="note")
    shown = element("div", whiskers(drawn, note, left=42), class_="scroll wide", tabindex="0") if drawn else none
    return element("section", element("h2", title), element("p", note, class_="note"), shown)
