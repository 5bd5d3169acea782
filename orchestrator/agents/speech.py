"""How a scripted model must speak to be understood by an agent: model id, shell tool, its argument, farewell.

Facts of each agent, read off its requests. The tool list of some agents depends on the model id, so a
scripted model goes by an id that the agent knows. Reads and writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.usage import Api


@dataclass(frozen=True, slots=True)
class Speech:
    """What a scripted model says to one agent.

    Args:
        model: the model id under which the agent asks.
        api: the wire format that it asks in.
        tool: the agent's own tool that runs a command.
        argument: the argument of that tool that holds the command.
        farewell: a command that tells the agent that the work is done, where plain text does not.
        server: what stands before the name of a server's tool in the agent's list, and whether the rest is
            called under it as a namespace; None for an agent that takes no servers.
        max_output_tokens: how long an answer the agent asks for at most; None where it leaves that to the model.
    """

    model: str
    api: Api
    tool: str
    argument: str
    farewell: str | None = None
    max_output_tokens: int | None = None
    server: tuple[str, bool] | None = None
