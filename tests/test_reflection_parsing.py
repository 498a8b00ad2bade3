"""Reflections in words: what is read, what is refused and under which name, and that any text is one of the two."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import InputError, MalformedReflection
from triage_gym.records import Reflection
from triage_gym.reflection import read_reflection, write_reflection
from triage_gym.reflection.parsing import FORMS, MAX_REMARK, MAX_TEXT, PROBLEMS, Form

# Pieces that malformed and sound texts are made of; random characters alone would never get past the first check.
PIECES = (
    *("<remark>", "</remark>", "<pivot>", "</pivot>", "<think>", "</think>", "{", "}", "[", '"remark"', '"pivot"'),
    *(
        ":",
        ",",
        "3",
        "-1",
        "1e5",
        "NaN",
        "true",
        "null",
        '"x"',
        " ",
        "\n",
        "é",
        "\ud800",
        "\\",
        '{"remark": "x", "pivot": 1}',
    ),
)
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
forms = st.sampled_from(FORMS)


@pytest.mark.parametrize(
    ("text", "form", "remark", "pivot"),
    [
        ('{"remark": "Look first.", "pivot": 3}', "json", "Look first.", 3),
        (' \n{"pivot": -1, "remark": ""}\n', "json", "", -1),
        ('{"remark": "</think> <remark>", "pivot": 0}', "any", "</think> <remark>", 0),
        ('<think>{"pivot": 9}</think> {"remark": "é", "pivot": 0}', "json", "é", 0),
        ('no opening tag</think>{"remark": "x", "pivot": 0}', "any", "x", 0),
        ("Hm. <remark>\n Go left. \n</remark> It was <pivot> 2 </pivot>.", "tag", "Go left.", 2),
        ("<pivot>+4</pivot><remark></remark>", "any", "", 4),
        ("<think><remark>no</remark></think><remark>yes</remark><pivot>1</pivot>", "any", "yes", 1),
    ],
)
def test_sound_texts(text: str, form: Form, remark: str, pivot: int) -> None:
    assert read_reflection(text, form) == Reflection(remark, pivot, "policy", text)


@pytest.mark.parametrize(
    ("text", "form", "kind"),
    [
        ("", "json", "empty"),
        (" \n", "tag", "empty"),
        ("<think>hm</think>", "any", "empty"),
        ("<think>hm", "json", "unclosed"),
        ("x" * (MAX_TEXT + 1), "any", "too_long"),
        ("turn 3", "any", "not_json"),
        ('Sure: {"remark": "x", "pivot": 1}', "json", "not_json"),
        ('{"remark": "x", "pivot": 1} done', "json", "not_json"),
        ('{"remark": "x", "pivot": NaN}', "json", "not_json"),
        ('{"remark": "x", "pivot": ' + "9" * 5000 + "}", "json", "not_json"),
        ("[" * 60_000, "json", "not_json"),
        ("[1]", "json", "not_an_object"),
        ("3", "any", "not_an_object"),
        ('{"remark": "x", "pivot": 1, "pivot": 1}', "json", "duplicate_key"),
        ("{}", "json", "keys"),
        ('{"remark": "x"}', "json", "keys"),
        ('{"remark": "x", "pivot": 1, "why": ""}', "json", "keys"),
        ('{"remark": null, "pivot": 1}', "json", "remark_type"),
        ('{"remark": "x", "pivot": true}', "json", "pivot_type"),
        ('{"remark": "x", "pivot": 1.0}', "json", "pivot_type"),
        ('{"remark": "x", "pivot": "1"}', "json", "pivot_type"),
        ('{"remark": "x", "pivot": 1000000000}', "json", "pivot_type"),
        ("<pivot>1</pivot>", "tag", "no_remark"),
        ("<remark>x</remark>", "any", "no_pivot"),
        ("<remark>a</remark><remark>b</remark><pivot>1</pivot>", "tag", "two_remarks"),
        ("<remark>a</remark></remark><pivot>1</pivot>", "tag", "two_remarks"),
        ("<remark>a</remark><pivot>1</pivot><pivot>1</pivot>", "tag", "two_pivots"),
        ("<remark>a<pivot>1</pivot>", "tag", "unclosed"),
        ("</remark>a<remark><pivot>1</pivot>", "tag", "unclosed"),
        ("<remark>a</remark><pivot>1.5</pivot>", "tag", "pivot_type"),
        ("<remark>a</remark><pivot>turn 1</pivot>", "tag", "pivot_type"),
        ("<remark>a</remark><pivot>\u0661</pivot>", "tag", "pivot_type"),
        ("<remark>a</remark><pivot></pivot>", "tag", "pivot_type"),
    ],
)
def test_malformed_texts_have_a_kind(text: str, form: Form, kind: str) -> None:
    with pytest.raises(MalformedReflection, match=r"^Expected .*, got ") as caught:
        read_reflection(text, form)
    assert caught.value.kind == kind
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (again.kind, str(again)) == (kind, str(caught.value)), "it crosses processes"


def test_a_remark_is_cut_and_its_text_is_not() -> None:
    text = json.dumps({"remark": "a" * 3000, "pivot": 1})
    assert read_reflection(text) == Reflection("a" * MAX_REMARK, 1, "policy", text)
    assert len(read_reflection(f"<remark>{'a' * 3000}</remark><pivot>1</pivot>", "tag", "llm").remark) == MAX_REMARK


@given(texts, forms)
def test_any_text_is_a_reflection_or_malformed(text: str, form: Form) -> None:
    try:
        found = read_reflection(text, form, "me")
    except MalformedReflection as error:
        problem, told = error.kind, str(error)
    else:
        problem, told = "", ""
        assert (found.text, found.source, found.problem) == (text, "me", "")
        assert type(found.pivot) is int
        assert len(found.remark) <= MAX_REMARK
        if form == "json":
            assert read_reflection(text, "any", "me") == found, "what the JSON form takes, any takes alike"
    assert problem in ("", *PROBLEMS)
    assert len(told) < 400


@given(st.text(max_size=MAX_REMARK), st.integers(-5, 10**9 - 1))
def test_a_written_reflection_reads_back(remark: str, pivot: int) -> None:
    text = write_reflection(remark, pivot)
    for form in ("json", "any"):
        assert read_reflection(text, form) == Reflection(remark, pivot, "policy", text)
    tagged = write_reflection("Turn 3 was wrong.", pivot, "tag")
    for form in ("tag", "any"):
        assert read_reflection(f"I think {tagged} is it", form).pivot == pivot


@pytest.mark.parametrize(
    ("remark", "pivot", "form"),
    [
        ("a" * (MAX_REMARK + 1), 0, "json"),
        ("x", 10**9, "json"),
        ("an </remark>", 0, "tag"),
        ("a <pivot>", 0, "tag"),
        (" x", 0, "tag"),
        ("x", 0, "xml"),
    ],
)
def test_what_cannot_be_written_is_an_error(remark: str, pivot: int, form: Form) -> None:
    with pytest.raises(InputError, match="Expected") as caught:
        write_reflection(remark, pivot, form)  # type: ignore[arg-type]
    assert not isinstance(caught.value, MalformedReflection)


def test_an_unknown_form_is_an_error() -> None:
    with pytest.raises(InputError, match="'json', 'tag', 'any'"):
        read_reflection("{}", "xml")  # type: ignore[arg-type]
