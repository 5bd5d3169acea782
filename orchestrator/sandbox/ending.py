"""The end of an agent's container: by itself, by our limit, or by somebody else, told apart.

Asks the engine alone; an end that others caused is a fault and never the agent's own.
"""

from __future__ import annotations

from orchestrator.core.clock import unix_time_s
from orchestrator.sandbox.containers import Container, EngineFault

STREAM_LAG_S = 5


def end_of(agent: Container, *, by_itself: bool) -> tuple[int, bool]:
    """Makes sure that the agent's container is gone; returns its exit code and whether memory ran out.

    Raises:
        EngineFault: somebody else ended it or held it up, so its end says nothing about the agent.
    """
    if not by_itself:
        agent.detach()
        agent.kill()
    ended_s = unix_time_s()
    code, out_of_memory = agent.wait()
    if by_itself and agent.finished_unix_s() - ended_s > STREAM_LAG_S:
        # The container's first process holds its output open to the end: only a lost connection
        # ends the stream while it runs, and then output and time were not watched.
        raise EngineFault(
            "stream-lost",
            f"expected the agent's output until its end, found the connection lost at least {STREAM_LAG_S} s before",
            hint="run `memtrial resume`",
        )
    foreign = agent.meddled() if by_itself else ()
    agent.remove()
    if foreign:
        raise EngineFault(
            "container-ended-from-outside",
            f"expected the agent's container to end by itself or by us, found {', '.join(foreign)} from outside",
            hint="leave the containers of a run alone; `memtrial resume` repeats the trial",
        )
    return code, out_of_memory
