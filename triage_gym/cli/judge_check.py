"""``triage-gym judge check``: what an endpoint can do as a judge, found out with four clear turns, and the config to paste."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from triage_gym.cli.output import say
from triage_gym.display import sanitize_line, table

if TYPE_CHECKING:
    from triage_gym.judges.probing import Tried


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCheck:
    """Ask an endpoint for the roles of four clear turns, in each way to ask for JSON; say which works, and what it costs."""

    model: Annotated[str, tyro.conf.Positional]
    """The model's name, as the endpoint calls it."""
    base_url: str | None = None
    """Where the endpoint is, such as http://localhost:8000/v1; OpenAI's, or what OPENAI_BASE_URL says, without it."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the requests, such as temperature=0: JSON values, or text."""
    max_tokens: int = 4096
    """Most tokens of an answer, thoughts included."""
    timeout: float = 60.0
    """Seconds after which a question has failed."""
    json: Path | None = None
    """File for all that was found, as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Ask and print; status 1 when no way to ask works."""
        from triage_gym.judges.llm import LLMJudge
        from triage_gym.judges.probing import best

        config = self._config()
        made = {key: value for key, value in config.items() if key != "name"}
        timed: dict[str, Any] = {"deadline": self.timeout, "client": {"timeout": self.timeout}}
        judge = LLMJudge(**made, **timed)
        try:
            tried = judge.probe()
        finally:
            judge.close()
        found = best(tried)
        if found is not None:
            config["mode"] = found.rung
        self._print(tried, config, found)
        if self.json is not None:
            told = {"tried": [one.to_json() for one in tried], "mode": found.rung if found else None, "judge": config}
            self.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8", errors="backslashreplace")
            say(f"\nnumbers: {self.json}")
        return 0 if found else 1

    def _config(self) -> dict[str, Any]:
        """The judge's config, without what is as by default."""
        config: dict[str, Any] = {"name": "llm", "model": self.model}
        if self.base_url is not None:
            config["base_url"] = self.base_url
        if self.api_key_env != "OPENAI_API_KEY":
            config["api_key_env"] = self.api_key_env
        if self.options:
            config["options"] = dict(self.options)
        if self.max_tokens != 4096:
            config["max_tokens"] = self.max_tokens
        return config

    def _print(self, tried: Sequence[Tried], config: Mapping[str, Any], found: Tried | None) -> None:
        say(table(_HEAD, [_row(one) for one in tried]))
        for one in tried:
            if why := one.to_json()["why"]:
                say(f"\n{one.rung}: {sanitize_line(why)}")
        if found is None:
            say("\nNo way to ask works: this endpoint cannot judge as it is.")
            return
        if any(reply.thought for one in tried for reply in one.replies):
            say("\nThe model thinks before it answers. That judges better, and costs the tokens shown.")
        if any(reply.in_reasoning for one in tried for reply in one.replies):
            say("\nThe answer came in the reasoning field; it is taken, and counted as json_in_reasoning.")
        if found.right < len(found.replies):
            say(
                f"\nOf {len(found.replies)} clear turns {found.right} got the right role: look before you train with it."
            )
        say(f"\nUse: --judge {shlex.quote(json.dumps(dict(config)))}")


_HEAD = ("mode", "works", "right", "labels", "failures", "s/call", "tokens in", "tokens out", "thinks")


def _row(one: Tried) -> list[object]:
    told = one.to_json()
    labels = " ".join(label or "-" for label in told["labels"])
    return [
        one.rung,
        "yes" if one.works else "no",
        f"{one.right}/{told['canaries']}",
        labels,
        ", ".join(dict.fromkeys(told["failures"])) or "-",
        f"{told['seconds_a_call']:.2f}",
        told["prompt_tokens"],
        told["completion_tokens"],
        "yes" if told["thinks"] else "no",
    ]
