"""A set that remembers the order in which elements came."""

from collections.abc import MutableSet, Reversible


class OrderedSet(MutableSet, Reversible):
    """A set whose elements come out in the order in which they were put in."""

    __slots__ = ("_items",)

    def __init__(self, iterable=None):
        self._items = dict.fromkeys(iterable or ())

    def __contains__(self, element):
        return element in self._items

    def __iter__(self):
        return iter(self._items)

    def __reversed__(self):
        return reversed(self._items)

    def __len__(self):
        return len(self._items)

    def __repr__(self):
        return f"OrderedSet({list(self._items)!r})"

    def __getstate__(self):
        return list(self._items)

    def __setstate__(self, state):
        self._items = dict.fromkeys(state)

    def add(self, elem):
        self._items[elem] = None

    def discard(self, elem):
        self._items.pop(elem, None)

    def clear(self):
        self._items.clear()

    def pop(self):
        if not self._items:
            raise KeyError("pop from an empty set")
        return self._items.popitem()[0]

    def copy(self):
        """Another set of the same elements."""
        return OrderedSet(self)

    def update(self, *others):
        """Adds the elements of all the others."""
        for other in others:
            self._items.update(dict.fromkeys(other))

    def union(self, *others):
        """The elements of all of them."""
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others):
        """The elements that all of them have."""
        return OrderedSet(e for e in self if all(e in set(o) for o in others))

    def difference(self, *others):
        """The elements that none of the others has."""
        gone = {e for o in others for e in o}
        return OrderedSet(e for e in self if e not in gone)

    def symmetric_difference(self, other):
        """The elements that one of the two has."""
        return self ^ OrderedSet(other)

    def issubset(self, other):
        """Whether the other has all elements."""
        return all(e in set(other) for e in self)

    def issuperset(self, other):
        """Whether this set has all elements of the other."""
        return all(e in self for e in other)
