"""Promise: a plan runs on the container runtime that it names or not at all; what is stronger is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.core.errors import EnvironmentMissing
from orchestrator.sandbox.harden import Uids, agent_profile, create_options, profile_sha256
from orchestrator.sandbox.runtimes import require_runtime, runtimes_line, runtimes_of

# The fields as engine 20.10 gives them, and as engine 28 does with two runtimes more.
OLD = {
    "Runtimes": {
        "io.containerd.runc.v2": {"path": "runc"},
        "io.containerd.runtime.v1.linux": {"path": "runc"},
        "runc": {"path": "runc"},
    },
    "DefaultRuntime": "runc",
    "SecurityOptions": ["name=seccomp,profile=default"],
}
NEW = {
    "Runtimes": {
        "runc": {"path": "runc", "status": {"org.opencontainers.runtime-spec.features": "{}"}},
        "strong": {"path": "/usr/local/bin/runsc", "runtimeArgs": ["--platform=systrap"]},
        "vm": {"runtimeType": "io.containerd.kata.v2"},
        "sysbox-runc": {"path": "/usr/bin/sysbox-runc"},
    },
    "DefaultRuntime": "strong",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
}


def test_the_default_and_every_name_are_read_from_the_engines_description():
    found = runtimes_of(OLD)
    assert found.names == ("io.containerd.runc.v2", "io.containerd.runtime.v1.linux", "runc")
    assert (found.default, found.stronger, found.remap) == ("runc", (), "none")


def test_stronger_runtimes_are_told_by_their_program_under_whatever_name():
    stronger = dict(runtimes_of(NEW).stronger)
    assert sorted(stronger) == ["strong", "sysbox-runc", "vm"]
    assert stronger["strong"].startswith("gVisor")
    assert stronger["vm"].startswith("Kata")


def test_a_name_alone_makes_no_runtime_stronger():
    assert runtimes_of({"Runtimes": {"runsc": {"path": "runc"}}}).stronger == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["name=rootless"], "the engine is rootless"),
        (["name=seccomp,profile=default", "name=userns"], "not rootless but maps users"),
        ([], "the engine is not rootless"),
        (None, "the engine is not rootless"),
    ],
)
def test_it_is_said_whose_root_is_root(options, said):
    assert said in runtimes_line(runtimes_of({**OLD, "SecurityOptions": options}))


def test_the_line_says_when_nothing_is_stronger_and_marks_what_is():
    assert "none stronger: containers share the host's kernel" in runtimes_line(runtimes_of(OLD))
    assert "strong (default) [stronger; gVisor" in runtimes_line(runtimes_of(NEW))


@pytest.mark.parametrize("runtime", [None, "runc", "io.containerd.runc.v2"])
def test_a_runtime_that_is_there_is_not_refused(runtime):
    require_runtime(OLD, runtime)


def test_a_runtime_that_is_not_there_is_refused_with_those_that_are_and_the_next_command():
    with pytest.raises(EnvironmentMissing) as caught:
        require_runtime(OLD, "runsc")
    assert caught.value.exit_code == 4
    assert caught.value.message == (
        "expected container runtime runsc in the engine, "
        "found io.containerd.runc.v2, io.containerd.runtime.v1.linux, runc"
    )
    assert "`memtrial plan --runtime runc`" in caught.value.hint


def test_an_engine_that_names_no_runtimes_has_only_its_default():
    require_runtime({}, None)
    with pytest.raises(EnvironmentMissing, match="found none"):
        require_runtime({}, "runc")


def test_without_a_runtime_the_options_and_the_profile_are_as_they_were(plan_limits):
    given: dict[str, Any] = {"image": "i", "volume": "v", "labels": {}}
    profile = agent_profile(plan_limits, Uids(100_000))
    assert "runtime" not in create_options(profile, **given)
    assert create_options(profile, **given) == {
        name: value
        for name, value in create_options(profile, **given, runtime="runsc").items()
        if name != "runtime"
    }
    assert profile_sha256() == profile_sha256(None) != profile_sha256("runsc")


@pytest.fixture
def plan_limits(fixtures):
    from orchestrator.sources.loader import load_task

    return load_task(fixtures, "depotfeed-returns").brief.limits


@pytest.mark.parametrize("name", ["", "two words", "/usr/bin/runsc", "-x", "a" * 81, "runsc\n"])
def test_a_name_that_no_engine_gives_is_a_usage_error(capsys, name):
    code = main(["plan", "--agent", "noop", f"--runtime={name}", "--dry-run", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (code, error["reference"]) == (2, "runtime-invalid")
