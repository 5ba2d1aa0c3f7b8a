"""Services that die in a run: what needs them is not run and says why, what does not is measured."""

import contextlib
from pathlib import Path
from typing import Any

from tests.conductor.harness import free_port, gate, speech_server, started, voice_scenario, with_llm

# A gate that a busy machine does not fail.
NONE_FAILED = ["speech.failed <= 0"]


def ladder(url: str, *more: dict[str, Any], **timing: str) -> dict[str, Any]:
    """`alone`, `beside` with an LLM of ours, `more` stages and `alone` again."""
    scenario = with_llm(voice_scenario(url, gate=NONE_FAILED), free_port())
    scenario["timing"] |= {"measure": "800ms", "solo": "0ms", **timing}
    scenario["stages"] += more
    return scenario


async def test_what_needs_a_process_that_died_is_not_run_and_the_rest_is(folder: Path) -> None:
    # Nothing settles before the kill, and who waited for it would end no test.
    timing = {"settle": "1s", "settle_limit": "10m"}
    more = ({"name": "never", "load": ["voices", "decode"]}, {"name": "without", "load": ["voices"]})
    async with speech_server() as server, started(folder, ladder(server.url, *more, **timing)) as command:
        await command.until_marked("settle", "beside")
        command.find("cotenant.testing.idle_llm").kill()
        ended = await command.end()
    assert ended.code == 4, ended.err  # a load that was not delivered
    why = "the tenant 'llm' ended (SIGKILL) in beside; not run without it: never"
    assert why in ended.err
    assert "never: not run, at least 0:" in ended.err
    assert ended.manifest["status"] == "failed"
    assert ended.manifest["error"].startswith(why)
    stages = {stage["name"]: stage for stage in ended.summary["stages"]}
    assert {name: stages[name]["verdict"] for name in ("alone", "never", "without")} == {
        "alone": "pass", "never": "inconclusive", "without": "pass",
    }  # fmt: skip
    assert stages["beside"]["validity"] == "invalid"
    reason = "it needs llm, which ended (SIGKILL) in beside; see logs/llm.log"
    assert stages["never"]["why"]["verdict"] == f"this stage was not measured: {reason}"
    assert stages["never"]["speech"]["clean_share"] is None
    assert {one["why"]["verdict"] for one in stages["never"]["gates"]} == {f"not measured: {reason}"}
    assert [one["kind"] for one in stages["without"]["caveats"]].count("neighbour-gone") == 1
    assert ended.summary["a_a"]["stage"]["name"] == "alone/again"
    assert ended.run_dir is not None
    again = await gate(folder, ended.run_dir, "--json")
    assert (again.code, again.parsed["stages"]) == (ended.code, ended.summary["stages"])


async def test_a_built_in_voice_that_is_killed_ends_a_run_in_which_all_speak(folder: Path) -> None:
    scenario = ladder("http://127.0.0.1:9", {"name": "never", "load": ["voices"]})
    scenario["tenants"]["tts"] = {"kind": "speech", "engine": "builtin", "shape": "tiny"}
    async with started(folder, scenario) as command:
        await command.until_marked("settle", "beside")
        command.find("cotenant.tenants.builtin.server", "speech").kill()
        ended = await command.end()
    assert [one["stage"] for one in ended.manifest["not_run"]] == ["never", "alone/again"]
    # Of a voice that speaks for longer than it is measured the baseline does not count.
    assert ended.code == (1 if ended.summary["stages"][0]["validity"] == "valid" else 4), ended.err
    assert ended.summary["stages"][1]["verdict"] == "fail"
    assert (
        "the tenant 'tts' ended (SIGKILL) in beside; not run without it: never and alone/again" in ended.err
    )
    assert ended.summary["a_a"]["stage"] is None
    assert ended.summary["a_a"]["why"]["stage"].startswith(
        "the closing baseline was not measured: it needs tts, which ended (SIGKILL) in beside"
    )


async def test_an_attached_service_that_is_gone_is_missed_in_one_stage_only(folder: Path) -> None:
    more = [{"name": name, "load": ["voices"]} for name in ("third", "fourth")]
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(speech_server())
        async with started(folder, ladder(server.url, *more)) as command:
            await command.until_marked("drain", "alone", "end")
            await stack.aclose()
            ended = await command.end()
    # What is not asked any more passes nothing.
    assert ended.code == 1, ended.err
    assert ended.manifest["status"] == "failed"
    assert [one["stage"] for one in ended.manifest["not_run"]] == ["third", "fourth", "alone/again"]
    assert "the tenant 'tts' refused every connection from beside on; not run without it" in ended.err
    stages = {stage["name"]: stage for stage in ended.summary["stages"]}
    assert (stages["beside"]["verdict"], stages["beside"]["validity"]) == ("fail", "valid")
    assert "tenant-refused" in [one["kind"] for one in stages["beside"]["caveats"]]
    assert stages["third"]["why"]["verdict"].endswith("from beside on: nothing listened there")
