"""Every way to ask a node for something."""

from edgegpt_msgs.msg import ErrorCode

from .peer import Peer

WAY_OUT = {"configuring": "wait until it is active", "finalized": "start it again"}


def refused_at_every_door(peer: Peer, state: str) -> None:
    """Hold that a node in this state answers at each of them that it takes no requests."""
    sentence = f"the node is {state} and takes no requests; {WAY_OUT.get(state, 'activate it')}"
    goal = peer.goal("stop")
    assert goal.end() == ("aborted", "error", ErrorCode.NOT_ACTIVE)
    assert goal.result().error == sentence
    assert [chunk.text for chunk in goal.chunks()] == [""]  # who watches the topic is told too
    assert peer.complete("stop").error == sentence
    assert peer.count("stop").error_code == ErrorCode.NOT_ACTIVE
    assert peer.say("stop") == ""
