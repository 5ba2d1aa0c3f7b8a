"""The windows of a run when nothing listens at a service's address any more, and when it is there again."""

import asyncio
from pathlib import Path

import pytest

from cotenant.conductor.plan import Window
from cotenant.conductor.reporter import Reporter
from cotenant.conductor.walk import LadderStopped
from tests.conductor.walking import AGAIN, ATTACHED, LADDER, SOLO, Event, Told


def test_a_stage_is_measured_without_an_attached_service_before_the_rest_is_left_out(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    why = told.through({"llm-decode": lambda told: told.refused.add("http://127.0.0.1:9")})
    # The whole settle limit is waited for once, in the stage that is measured without it.
    assert told.given_up == []
    assert told.ran == [*SOLO, *LADDER[:3]]
    assert told.not_run == [*LADDER[3:], AGAIN]
    assert why.startswith("the tenant 'tts' refused every connection from llm-decode on; not run without it")


def test_nothing_is_left_out_while_no_stage_has_failed_for_it(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    told.failing = False
    why = told.through({"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")})
    # It is gone at the end all the same.
    assert why == "the tenant 'tts' refused every connection from talking-head on"
    assert told.ran == [*SOLO, *LADDER, AGAIN]
    # But it is waited for no more.
    assert {one for one in told.given_up if "voices" in one} == {
        f"{name}: voices" for name in (*LADDER[2:], AGAIN)
    }


@pytest.mark.parametrize("engine", [ATTACHED, ()])
def test_whoever_is_gone_in_the_closing_baseline_leaves_a_run_that_failed(
    tmp_path: Path, engine: tuple[str, ...]
) -> None:
    told = Told(tmp_path, *engine)

    def leave(told: Told) -> None:
        if engine:
            told.refused.add("http://127.0.0.1:9")
        else:
            told.end("tts")

    assert told.through({AGAIN: leave}).startswith("the tenant 'tts' ")
    assert told.not_run == []


def test_a_launched_program_that_runs_on_without_its_server(tmp_path: Path) -> None:
    launched = ("tenants.tts.engine=launch", "tenants.tts.command=[sh]", "tenants.tts.url=http://127.0.0.1:9")
    told = Told(tmp_path, *launched)
    told.through({"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")})
    assert told.not_run == [*LADDER[2:], AGAIN]
    (tmp_path / "b").mkdir()
    told = Told(tmp_path / "b", *launched)

    def end(told: Told) -> None:
        told.end("tts")
        told.refused.add("http://127.0.0.1:9")

    assert told.through({"talking-head": end}).startswith("the tenant 'tts' ended (SIGKILL) in talking-head")
    assert told.ran[-1] == "talking-head"


@pytest.mark.parametrize("look", ["unsettled", "refused", "there again", "judged"])
def test_a_launched_program_that_ends_while_it_is_looked_at(tmp_path: Path, look: str) -> None:
    url = "http://127.0.0.1:9"
    told = Told(tmp_path, "tenants.tts.engine=launch", "tenants.tts.command=[sh]", f"tenants.tts.url={url}")
    looks = 0

    async def refuses(_url: str) -> bool:
        nonlocal looks
        looks += bool(told.refused)
        if (look, looks) == ("unsettled", 1) or (look in ("refused", "there again") and looks == 2):
            told.end("tts")
        return bool(told.refused) and not (look == "there again" and looks == 2)

    async def failed(_run_dir: Path, _stage: str) -> bool:
        if look == "judged":
            told.end("tts")
        return True

    told.walk.refuses, told.walk.failed = refuses, failed
    why = told.through({"talking-head": lambda told: told.refused.add(url)})
    assert why.startswith("the tenant 'tts' ended (SIGKILL) in talking-head; not run without it: llm-decode")
    assert told.ran[-1] == "talking-head"


def test_an_attached_service_that_is_there_again_is_measured(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    events: dict[str, Event] = {"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")}

    async def refuses(url: str) -> bool:
        if len(told.ran) == 5 and told.not_run == ["llm-decode"]:
            told.refused.clear()
        return url in told.refused

    told.walk.refuses = refuses
    why = told.through(events)
    assert told.not_run == ["llm-decode"]
    assert told.ran[-3:] == ["llm-long-prefill", "all-together", AGAIN]
    assert "refused every connection from talking-head on; not run without it: llm-decode" in why
    assert told.given_up == []


def test_a_service_that_refuses_in_a_solo_window_is_missed_in_a_stage_and_not_waited_for(
    tmp_path: Path,
) -> None:
    told = Told(
        tmp_path, "tenants.llm.engine=attach", "tenants.llm.url=http://127.0.0.1:9", "tenants.llm.model=m"
    )
    told.refused.add("http://127.0.0.1:9")

    async def one(window: Window) -> None:
        told.ran.append(window.stage)
        await told.walk.unsettled(
            window.stage, [name for name in window.loads if name in ("decode", "prefill")]
        )

    with pytest.raises(LadderStopped):
        asyncio.run(told.walk.through(told.plan, one, Reporter(told.run, told.state, told.plan)))
    told.run.writer.close()
    assert told.not_run == ["solo:prefill", "llm-long-prefill", "all-together"]
    assert "llm-decode" in told.ran
