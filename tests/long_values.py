"""Expressions of `long_axes`: numbers, places, conditions of a row `i`, perhaps of a column `j`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Names:
    """Names that may be read, by what they are over, and those that a block has for itself."""

    def __init__(self) -> None:
        self.rows, self.columns, self.matrices = ["x", "y"], ["v"], ["a"]
        self.places, self.orders, self.numbers = ["g"], ["q"], ["s"]
        self.integers, self.small = ["c"], ["u"]
        self.kept: list[str] = []  # of a length that a run finds
        self.ragged: list[str] = []
        self.structs: list[str] = []
        self.maybes: list[str] = []
        self.shapes: list[str] = []

    def copy(self) -> Names:
        made = Names()
        for name, found in vars(self).items():
            setattr(made, name, list(found))
        return made


class Values:
    """Expressions of a row `i`, perhaps of a column `j`."""

    def __init__(self, chance: Random, smooth: bool) -> None:
        self.chance, self.smooth = chance, smooth
        self.made = 0
        self.known = Names()

    def pick(self, among: Sequence):
        return among[self.chance.randrange(len(among))]

    def name(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def leaf(self, i: str, j: str) -> str:
        known = self.known
        r, p, o, z = (self.pick(x) for x in (known.rows, known.places, known.orders, known.columns))
        found = [
            f"{r}[{i}]", f"{r}[{i}]", f"{r}[clamp({i} + {self.pick([1, 2, -3])})]",
            f"{r}[wrap({i} - {self.pick([1, -5])})]", f"{r}.get({i} - 3, 0.5)", f"{r}[{o}[{i}]]",
            f"{z}[{p}[{i}]]", f"{self.pick(known.matrices)}[{i}, {p}[{i}]]", f"w[{i}, 2]",
            f"Float({self.whole(i, j, 0)})", f"Float(h[{i}])", self.pick(known.numbers), "0.5",
            f"{r}[{o}[{o}[{i}]]]", f"{r}[clamp({self.whole(i, j, 0)})]", *known.numbers[1:],
        ]  # fmt: skip
        if j:
            a = self.pick(known.matrices)
            found += [f"{a}[{i}, {j}]", f"{a}[{o}[{i}], {j}]"] * 3
            found += [f"{z}[{j}]", f"{z}[clamp({j} + 1)]", f"{z}[wrap({j} - 1)]"] * 3
        for t in known.kept:
            found += [f"{t}.get({self.whole(i, j, 0)}, 0.5)", f"sum({t})", f"Float(size({t}))"]
        for t in known.ragged:
            found += [f"sum({t}[{i}])", f"{t}[{i}].get({self.whole(i, j, 0)}, 0.5)"]
        for t in known.structs:
            found += [f"{t}[{i}].one", f"{t}[{o}[{i}]].two", f"replace({t}[{i}], one={r}[{i}]).one"]
        return self.pick(found)

    def value(self, i: str, j: str = "", depth: int = 2) -> str:
        if not depth:
            return self.leaf(i, j)
        one, two = (self.value(i, j, depth - 1) for _ in range(2))
        name = self.name()
        inner = self.value(i, name, depth - 1)
        where = f" if {self.condition(i, name)}" if self.chance.random() < 0.3 else ""
        r = self.pick(self.known.rows)
        found = [
            self.leaf(i, j), f"({one} {self.pick('+-*')} {two})", f"abs({one})",
            f"{self.pick(['min', 'max'])}({one}, {two})",
            f"({one} if {self.condition(i, j)} else {two})",
            f"sum({inner} for {name} in Fin(m){where})", f"max({inner} for {name} in Fin(m))",
            f"sum({r}[{name}] * {one} for {name} in ..={i})",
            f"{self.pick(self.known.columns)}[{self.best(i, depth - 1)}]",
            f"fold(lambda o, {name}: 0.5 * o + {inner}, {one}, [{name} for {name} in Fin(m)])",
            f"min({r}[{name}] - {one} for {name} in {i}..)",
        ]  # fmt: skip
        for t in self.known.kept:
            found.append(f"sum({name} * {one} for {name} in {t} if {name} > {two})")
        for t in self.known.ragged:
            found.append(f"sum({name} * {one} for {name} in {t}[{i}])")
            found.append(f"max(0.5, max({name} - {one} for {name} in {t}[{i}]))")
        if self.smooth:
            found += [f"sin({one})", f"tanh({one})", f"exp(-abs({one}))", f"sqrt(1.5 + {one} ** 2)"]
            found += [f"({one} / (2.0 + cos({two})))", f"log(2.0 + tanh({one}))"]
            found.append(f"prod(1.0 + 0.1 * tanh({inner}) for {name} in Fin(m))")
            found.append(f"logsumexp([0.1 * tanh({inner}) for {name} in Fin(m)])")
        return self.pick(found)

    def best(self, i: str, depth: int) -> str:
        j = self.name()
        where = (
            f" if {j} >= {self.pick(self.known.places)}[{i}]" if self.chance.random() < 0.2 else ""
        )
        return (
            f"{self.pick(['argmin', 'argmax'])}({self.value(i, j, depth)} for {j} in Fin(m){where})"
        )

    def whole(self, i: str, j: str, depth: int) -> str:
        """An `Int`."""
        known = self.known
        found = [
            f"{self.pick(known.integers)}[{i}]", f"{self.pick(known.integers)}[{i}]", f"Int({i})",
            f"Int({self.pick(known.small)}[{i}])", f"Int({self.pick(known.orders)}[{i}])", "k",
            f"Int({self.pick(known.places)}[{i}])",
        ]  # fmt: skip
        found += [f"Int({j})"] * 2 if j else []
        found += [f"{t}[{i}].three" for t in known.structs]
        found += [f"size({t}[{i}])" for t in known.ragged]
        if not depth:
            return self.pick(found)
        one, two = (self.whole(i, j, depth - 1) for _ in range(2))
        name = self.name()
        z = self.pick(known.integers)
        return self.pick([
            *found, f"({one} {self.pick(['+', '-', '*', '//', '%', '&', '|', '^'])} {two})",
            f"({one} >> 1)", f"({one} << ({two} & 3))", f"min({one}, {two})", f"abs({one})",
            f"sum(1 for {name} in Fin(m) if {self.condition(i, name)})",
            f"sum({z}[{name}] * {one} for {name} in ..={i})",
            f"max({self.whole(i, name, depth - 1)} for {name} in Fin(m))",
            f"({one} if {self.condition(i, j)} else {two})",
            f"Int(U8({one} & 255) + U8({two} & 255))", f"Int(I8(({one} & 127) - 64) * I8(3))",
            f"Int(I32({one} & 4095) * I32({two} & 4095))",
        ])  # fmt: skip

    def condition(self, i: str, j: str = "") -> str:
        found = [
            f"b[{i}]", f"{self.pick(self.known.integers)}[{i}] > 0", f"{i} > 9",
            f"{self.whole(i, j, 0)} % 3 == 0", f"{self.pick(self.known.orders)}[{i}] < {i}",
            f"{self.pick(self.known.small)}[{i}] > 3", "k > 1",
            f"{self.leaf(i, j)} > {self.leaf(i, j)}",
        ]  # fmt: skip
        if j:
            found += [f"{j} != {self.pick(self.known.places)}[{i}]", f"{j} > 1"]
        one, two = self.pick(found), self.pick(found)
        return self.pick([one, f"not {one}", f"({one} and {two})", f"({one} or {two})"])
