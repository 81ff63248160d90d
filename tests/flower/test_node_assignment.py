"""Who is who among nodes that come, go and come back."""

from fedkin.core import FedkinError
from fedkin.flower.grid_federation import NodeAssignment


def asking(names: dict[int, object]):
    asked: list[list[int]] = []

    def ask(nodes):
        asked.append(list(nodes))
        return {node: names.get(node) for node in nodes}

    ask.asked = asked
    return ask


def test_clients_are_in_order_of_name_and_partitions_come_first():
    seats = NodeAssignment(5, asking({1: "south", 2: 7, 3: "north", 4: 2}))
    assert seats.update([1, 2, 3, 4]) == {0, 1, 2, 3}
    assert seats.names == [2, 7, "north", "south"]
    assert seats.nodes == [4, 2, 3, 1]


def test_a_node_gets_its_seat_back_under_another_id(caplog):
    caplog.set_level("INFO", "flwr")
    ask = asking({1: "a", 2: "b", 3: "a"})
    seats = NodeAssignment(5, ask)
    seats.update([1, 2])
    assert seats.update([2, 3]) == {0, 1}
    assert seats.nodes == [3, 2]
    assert ask.asked == [[1, 2], [3]]
    assert "Node a is back." in caplog.text


def test_a_name_is_taken_while_its_node_is_there(caplog):
    seats = NodeAssignment(5, asking({1: "a", 2: "a"}))
    seats.update([1])
    assert seats.update([1, 2]) == {0}
    assert seats.update([1, 2]) == {0}
    assert caplog.text.count("Node 2 is ignored: it says that it is a, as node 1 does.") == 1


def test_silent_nodes_are_asked_again_and_nameless_ones_are_not(caplog):
    names: dict[int, object] = {1: "a", 2: None, 3: FedkinError("it has none.")}
    ask = asking(names)
    seats = NodeAssignment(5, ask)
    assert seats.update([1, 2, 3]) == {0}
    names[2] = "b"
    assert seats.update([1, 2, 3]) == {0, 1}
    assert ask.asked == [[1, 2, 3], [2]]
    assert "Node 3 is ignored: it has none." in caplog.text


def test_those_of_an_earlier_process_are_away_until_they_come():
    seats = NodeAssignment(5, asking({8: "b", 9: "c"}), ["a", "b"])
    assert seats.update([8, 9]) == {1, 2}
    assert seats.names == ["a", "b", "c"]
    assert NodeAssignment(5, None, [10, 20]).update([20]) == {1}
