"""The front end of jit.script: Python's syntax trees to programs.

errors.py   messages with the user's line
types.py    types, from annotations and of values
values.py   what is known while a function is compiled: Val, and what every part does with one
calls.py    calls: operators of the table, functions, modules, classes
builtin.py  Python's builtins, math, and the names of rushlight that are no operators
methods.py  methods and attributes of tensors, strings, lists, dicts
operators.py, conditions.py, indexing.py, expr.py     expressions
loops.py    for, while, comprehensions
stmt.py     statements, branches
source.py   a Python function: its syntax tree, and the names around it
library.py  methods and functions of rushlight that are compiled from another source
program.py  functions, modules, and the program made of them
"""
