"""Resources of several parts of a call are joined."""

from agent_actors.domain.workspace.report import NO_RESOURCES, CallResources, joined_resources


def test_joined_resources_are_sums_without_repetitions() -> None:
    first = CallResources(
        paths=("a", "b"), hosts=("h",), cpu_seconds=1.5, max_memory_bytes=9, bytes_read=1
    )
    second = CallResources(
        paths=("b", "c"), hosts=("h",), cpu_seconds=0.5, max_memory_bytes=4, bytes_written=2
    )
    assert joined_resources([first, second]) == CallResources(
        paths=("a", "b", "c"),
        hosts=("h",),
        cpu_seconds=2.0,
        max_memory_bytes=9,
        bytes_read=1,
        bytes_written=2,
    )
    assert joined_resources([]) == NO_RESOURCES
