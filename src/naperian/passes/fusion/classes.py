"""Which index of one task is which index of another."""

from __future__ import annotations

from naperian.names import Var
from naperian.passes.fusion.graph import Task


class Classes:
    """Indices of tasks that will be one loop: union-find that never puts two indices of one task
    together."""

    def __init__(self) -> None:
        self.parent: dict[tuple[Task, Var], tuple[Task, Var]] = {}
        self.members: dict[tuple[Task, Var], dict[Task, Var]] = {}

    def find(self, x: tuple[Task, Var]) -> tuple[Task, Var]:
        above = self.parent.get(x)
        if above is None:
            self.parent[x] = x
            self.members[x] = {x[0]: x[1]}
            return x
        root = self.parent[above]
        if root is above:
            return root
        while (above := self.parent[root]) is not root:  # what leads there is one object
            root = above
        while (above := self.parent[x]) is not root:
            self.parent[x] = root
            x = above
        return root

    def union(self, x: tuple[Task, Var], y: tuple[Task, Var]) -> bool:
        x, y = self.find(x), self.find(y)
        if x is y:
            return True
        mine, theirs = self.members[x], self.members[y]
        if len(mine) < len(theirs):
            x, y, mine, theirs = y, x, theirs, mine
        if not mine.keys().isdisjoint(theirs):
            return False
        mine.update(theirs)
        del self.members[y]
        self.parent[y] = x
        return True
