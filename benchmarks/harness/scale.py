"""Cost against size: the same exchange at several sizes, one row with a figure for each size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from .figures import Row, Sample, figure
from .peer import Peer
from .play import Frames, measured, open_player
from .rows import Options, in_turn
from .servers import Server, floor_is

_MOST_ROUNDS = 3
_MOST_SECONDS = 0.4


class Step(NamedTuple):
    """One size. ``prepare`` brings the server there; it is called once, in front of the
    measurement."""

    size: int
    frames: Frames
    connections: int
    window: int
    prepare: Callable[[], None] = lambda: None


def scaled(
    name: str, unit: str, steps: list[Step], server: Server, floor: Server | None, options: Options
) -> Row:
    """Size by size, in turn with the floor, which gets the same frames."""
    rounds, seconds = min(options.rounds, _MOST_ROUNDS), min(options.seconds, _MOST_SECONDS)
    figures = {}
    for step in steps:
        step.prepare()
        ours, floors = in_turn(
            rounds,
            partial(_once, step, seconds, server),
            partial(_once, step, seconds, floor) if floor else None,
        )
        values, least = ([sample["cpu"] for sample in of] for of in (ours, floors))
        figures[str(step.size)] = figure("µs/message", values, least)
    return Row(
        benchmark="", name=name, figures=figures, floor_is=floor_is() if floor else "", note=unit
    )


def _once(step: Step, seconds: float, target: Server) -> Sample:
    with open_player(target.port, step.connections, step.frames) as player:
        return measured(partial(player.play, step.window), target.pid, seconds)


def play_once(port: int, frames: list[bytes], at_once: int = 64) -> None:
    """Every frame once, answers are only counted: so that what has to be there is there."""
    with Peer(port) as peer:
        for place in range(0, len(frames), at_once):
            part = frames[place : place + at_once]
            peer.send(b"".join(part))
            for _ in part:
                peer.receive()
