#!/usr/bin/env python3
"""Renders small templates with Jinja2, in the settings of transformers: make_template_cases.py > data/template-cases.json

A case is what a template gives, or that it fails (with the text given to raise_exception, or null). Needs the package Jinja2.
"""
import datetime
import json
import sys

from jinja2 import TemplateError, __version__
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "s": "Hello, wörld! 你好 🦙",
    "blank": "  two  words \n",
    "lines": "one\ntwo\n\nfour",
    "n": 7, "z": 0, "neg": -7, "f": 2.5, "t": True, "no": None, "empty": "", "big": 9007199254740993,
    "xs": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "nested": [[1, 2], [3, [4, 5]]], "nothing": [],
    "d": {"b": 1, "a": [1, 2, {"c": None}], "items": "own", "q": "it's \"quoted\" \\ \u0007 é"},
    "people": [{"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 31}],
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"}],
    "floats": [0.1, 1e16, 1e15, 1.5e-5, 0.0001, 100.0, 1e100, -0.0, 3.14159, 2.0, 123456789.123],
}

# Whitespace control, comments, raw.
TEMPLATES = [
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t %}\n  b\n  {%- endif %}\nc\n\n",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc\n", "a {% if t %} b {% endif %} c", "  {% if t %}x{% endif %}  \n y",
    "a\n  {%+ if t %}\n  b\n  {% endif +%}\nc", "{{ n }}\n{{ n }}\n", "{{- n -}}\n x", " \n {{- n -}} \n x", "x {{+ n }} y",
    "a {# comment #}\nb", "a\n  {# comment #}\nb", "a\n  {#- comment -#}\n  b", "{# a\nb #}c", "{#-#}x", "a {#+ c +#}\nb",
    "{% raw %}{{ n }} {% if %}{% endraw %}", "a\n {% raw %}\n x {{ y }}\n {% endraw %}\nb", "a {%- raw -%} x {%- endraw -%} b",
    "{{ '{{' }} {{ '%}' }} {{ '}}' }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {'b': 1}} }}", "x\r\ny\rz\n\n", "\n\n", "", "\n",
    "a\n\t{% set x = 1 %}\n\tb", "{% set x = 1 %}{% set y = 2 %}\n\n{{ x }}{{ y }}", "a{% if t %}\n\n\nb{% endif %}", "{",
    "{ {", "}} %} #}", "{% if t %}{{ n }}{% else %}no{% endif %}\n\u00a0{% if t %}x{% endif %}", "x\u2003{%- if t %}y{% endif %}",
]

# Expressions.
TEMPLATES += ["{{ %s }}" % e for e in [
    "1 + 2 * 3", "(1 + 2) * 3", "2 ** 3 ** 2", "-2 ** 2", "7 / 2", "8 / 2", "7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "7.5 // 2",
    "-7.5 % 2", "1 - 2 - 3", "10 ~ 2 ~ 'x'", "1 + 1 ~ 2", "2 * 3 ~ 4", "not true", "not not n", "n == 7", "n != 7", "1 < 2 < 3",
    "1 < 3 < 2", "3 > 2 >= 2", "'a' < 'b'", "[1, 2] < [1, 3]", "1 == 1.0", "true == 1", "'1' == 1", "none == false", "n and s", "z and s",
    "z or s", "no or empty or 'last'", "n if t else 2", "n if no else 2", "n if no", "(n if no) is defined", "'a' if z else 'b' if no else 'c'",
    "1 in xs", "4 not in xs", "'wör' in s", "'b' in d", "'z' in d", "not 'b' in d", "1 in [1.0]", "'' in s",
    "xs[0]", "xs[-1]", "xs[5] is defined", "xs[1:]", "xs[:-1]", "xs[::-1]", "xs[::2]", "xs[5:]", "xs[-2:]", "xs[2:0:-1]", "xs[:100]",
    "s[0]", "s[-1]", "s[7:12]", "s[::-1]", "s[-1:]", "s[::3]", "s[14:]", "s[100:]", "s[:-3]", "d.b", "d['b']", "d.a[2].c", "d.items is callable",
    "d['items']", "d.missing is defined", "d['missing'] is undefined", "xs.0", "people[0].name", "people[0]['age'] + 1", "people[1].tags is defined",
    "messages[0]['role']", "messages[-1].content", "[1, 'a', none, true, 1.5, [2], (3,), {}]", "(1, 2)", "(1,)", "()", "[]", "{}", "{'a': 1, 2: 'b'}",
    "{'x': 'it\\'s'}", "['it\\'s \"q\"']", "['\\n\\t\\\\ é \\x07 \\u200b 😀']", "'a' 'b' \"c\"", "'\\x41\\u00e9\\101\\q\\''", "'tab\\there'",
    "floats", "1e3", "1.0", "1_000", "0.1 + 0.2", "1e22", "5 * 'ab'", "'ab' * 2", "[0] * 3", "xs + [4]", "'a' + 'b'", "1 / 3", "2 ** -1", "2 ** 0.5",
    "-n", "+n", "-f", "- n + 1", "n.nope is defined", "none", "None", "True", "false", "no", "missing", "missing is defined", "missing or 'x'",
    "'%s is %d years, %.2f, %5s|%-5s|%05d %x %r %%' % ('Ann', 31, 1.5, 'a', 'b', 42, 255, 'q')", "'%s' % n", "'%s' % s", "true + true", "n * f",
    "xs == [3, 1, 2]", "(1, 2) == [1, 2]", "{'a': 1} == {'a': 1.0}", "d == d", "s is string and s|length > 3", "not s is string", "n is not string",
    "n is divisibleby 7", "n is divisibleby(2)", "n is odd", "n is even", "z is even", "neg is odd", "n is eq 7", "n is equalto(8)", "n is gt 3", "n is in [1, 7]",
    "n is integer", "t is integer", "f is float", "n is number", "t is number", "t is boolean", "n is boolean", "t is true", "n is true", "no is false",
    "no is none", "missing is none", "s is iterable", "n is iterable", "d is iterable", "d is mapping", "xs is mapping", "xs is sequence", "d is sequence", "n is sequence",
    "s is lower", "'abc' is lower", "'ABC' is upper", "'aBc' is upper", "s is sameas s", "none is sameas none", "'upper' is filter", "'nope' is filter", "range is callable", "missing is undefined",
    "range(5)|list", "range(2, 5)|list", "range(5, 0, -2)|list", "range(0)|list", "range(3)[1]", "dict(a=1, b='x')", "dict({'z': 1}, a=2)",
    "namespace(a=1).a", "strftime_now('%Y-%m-%d %H:%M:%S %d %b %Y %A %B %j')", "strftime_now('')", "t and not z or no",
]]

# Filters.
TEMPLATES += ["{{ %s }}" % e for e in [
    "s|upper", "s|lower", "s|title", "'hello wORLD-foo (bar) [x'|title", "s|capitalize", "'éA'|capitalize", "s|length", "xs|count", "d|length", "missing|length", "blank|trim", "'xxaxx'|trim('x')",
    "blank|trim|length", "xs|first", "xs|last", "s|first", "s|last", "nothing|first is defined", "xs|join", "xs|join(', ')", "words|join('-')|upper", "people|join(',', attribute='name')",
    "s|join('.')", "xs|sort", "words|sort", "words|sort(case_sensitive=true)", "xs|sort(reverse=true)", "people|sort(attribute='age')|map(attribute='name')|list", "people|sort(attribute='age,name')|map(attribute='name')|list",
    "xs|reverse|list", "'abc'|reverse", "xs|sum", "people|sum(attribute='age')", "xs|sum(start=10)", "xs|max", "xs|min", "words|max", "people|max(attribute='age')", "nothing|max is defined", "words|unique|list", "xs|list", "d|list", "'abc'|list",
    "d|items|list", "d.items()|list|length", "d|dictsort", "d|dictsort(by='key', reverse=true)|map('first')|list", "d.keys()|list", "d.values()|list|length", "words|map('upper')|list", "words|map('replace', 'p', 'q')|list", "people|map(attribute='tags', default='none')|list",
    "people|map(attribute='name')|join(' ')", "people|selectattr('age', 'equalto', 31)|map(attribute='name')|list", "people|selectattr('tags')|list|length", "people|selectattr('tags', 'defined')|list|length", "people|rejectattr('age', 'gt', 30)|map(attribute='name')|list", "xs|select('odd')|list",
    "xs|select|list", "xs|reject('odd')|list", "xs|reject('equalto', 1)|list", "[0, 1, '', none]|select|list", "xs|batch(2)|list", "xs|batch(2, 'x')|list", "range(7)|slice(3)|list", "range(7)|slice(3, 'x')|list", "people|groupby('age')|list|length",
    "people|groupby('age')|map('first')|list", "missing|default('x')", "empty|default('x')", "empty|default('x', true)", "no|default('x')", "missing|d(1)", "n|default", "missing|default", "n|string", "n|string ~ '!'", "xs|string", "no|string", "t|string",
    "'42'|int", "' 42 '|int", "'4.7'|int", "'x'|int", "'x'|int(5)", "4.9|int", "-4.9|int", "'ff'|int(base=16)", "no|int", "'1.5'|float", "'x'|float", "n|float", "neg|abs", "2.4|round", "2.5|round", "3.5|round", "2.345|round(2)", "2.1|round(method='ceil')", "2.19|round(1, 'floor')", "n|round", "-2.5|abs",
    "s|replace('o', '0')", "s|replace('l', 'L', 1)", "'aaa'|replace('', '-')", "lines|indent", "lines|indent(2)", "lines|indent(2, true)", "lines|indent(2, blank=true)", "lines|indent('> ')", "lines|indent(width=2, first=True)", "'a\\n'|indent(2)", "'a\\n\\n'|indent(2, blank=true)", "''|indent(2, true)",
    "s|center(30)", "'ab'|center(5)", "'abc'|center(6)", "blank|wordcount", "s|wordcount", "s|truncate(10)", "s|truncate(10, true)", "s|truncate(10, true, '…', 0)", "s|urlencode", "'%s and %s'|format('a', 1)", "'<a href=\"x\">&\\''|escape", "'<b>'|safe", "('<b>'|safe) + '<i>'", "('<b>'|escape) ~ '<i>'", "'<'|e|upper is string",
    "d|tojson", "d|tojson(indent=2)", "d|tojson(indent=0)", "xs|tojson(indent=4)", "s|tojson", "s|tojson(ensure_ascii=true)", "floats|tojson", "nothing|tojson(indent=2)", "{}|tojson(indent=2)", "[{}, []]|tojson(indent=1)", "d|tojson(separators=(',', ':'))", "{'b': 1, 'a': 2}|tojson(sort_keys=true)", "{1: 2, none: 3, true: 4, 1.5: 5}|tojson",
    "(1, 2)|tojson", "'\\x7f\\u2028 \\b\\f'|tojson", "big|tojson", "no|tojson", "messages|tojson(ensure_ascii=False)", "xs|tojson(indent='--')", "n|attr('nope') is defined", "xs|first|string|length", "words|map('length')|sum", "words|map('upper')|map('lower')|join(',')", "nested|map('last')|list", "nested|sum(start=[])",
]]

# Methods.
TEMPLATES += ["{{ %s }}" % e for e in [
    "blank.strip()", "blank.lstrip()|length", "blank.rstrip()", "'xyxaxy'.strip('xy')", "'\\n\\na\\n'.strip('\\n')", "'a,b,,c'.split(',')", "'a,b,,c'.split(',', 1)", "'a b  c '.split()", "'  a b  c '.split(none, 1)", "''.split()", "''.split(',')",
    "'abc'.split('x')", "'a,b,c'.rsplit(',', 1)", "'a b c'.rsplit()", "lines.splitlines()", "'a\\r\\nb\\rc\\n'.splitlines(true)", "'a=b=c'.partition('=')", "'a=b=c'.rpartition('=')", "'abc'.partition('x')", "'abc'.rpartition('x')", "','.join(words)", "''.join([])",
    "s.replace('l', 'L')", "s.replace('l', 'L', 2)", "'abc'.replace('', '-')", "s.startswith('Hello')", "s.startswith(('x', 'He'))", "s.endswith('🦙')", "'abc'.removeprefix('ab')", "'abc'.removesuffix('bc')", "s.find('wör')", "s.find('zz')", "s.rfind('l')", "s.find('🦙')", "'abc'.index('c')", "s.count('l')", "'aaa'.count('aa')", "'abc'.count('')",
    "s.upper()", "s.lower()", "'hello world it\\'s'.title()", "'ABC def'.capitalize()", "'aBc'.swapcase()", "'abc'.isalpha()", "'ab1'.isalpha()", "''.isalpha()", "'12'.isdigit()", "'1a'.isalnum()", "' \\t'.isspace()", "'ABC1'.isupper()", "'abc é'.islower()", "'1'.islower()", "'ab'.ljust(5, '.')", "'ab'.rjust(5)", "'ab'.center(5, '*')", "'abc'.center(6, '*')", "'-42'.zfill(5)", "'42'.zfill(1)",
    "'{} and {}'.format(1, 'x')", "'{1} {0}'.format('a', 'b')", "'{a}{{}}'.format(a=1)", "d.get('b')", "d.get('zz')", "d.get('zz', 'x')", "d.get('items')", "xs.index(1)", "xs.count(3)", "xs.copy()", "d.copy() == d", "messages[1].content.split('</think>')[-1].lstrip('\\n')", "messages[1].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')", "'a' ~ 'b'.upper()", "'x'.upper().lower()", "('a' + 'b').upper()",
]]

# Statements.
TEMPLATES += [
    "{% for x in xs %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}|{% endfor %}",
    "{% for x in nothing %}x{% else %}none{% endfor %}", "{% for x in missing %}x{% else %}none{% endfor %}", "{% for x in xs if x > 1 %}{{ loop.index }}{{ x }}{% else %}no{% endfor %}", "{% for x in xs if x > 9 %}{{ x }}{% else %}no{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for c in 'hé!' %}[{{ c }}]{% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% for x in nested recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}", "{% for x in xs %}{% set y = x %}{% endfor %}{{ y }}", "{% set y = 1 %}{% for x in xs %}{% set y = y + x %}{{ y }} {% endfor %}{{ y }}",
    "{% set ns = namespace(total=0) %}{% for x in xs %}{% set ns.total = ns.total + x %}{% endfor %}{{ ns.total }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] is defined }}{{ ns.c is defined }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}a {{ n }} b{% endset %}[{{ x }}]", "{% set x | upper | replace('A', 'z') %}a {{ n }} b{% endset %}[{{ x }}]",
    "{% if z %}a{% elif no %}b{% elif n %}c{% else %}d{% endif %}", "{% if z %}a{% elif no %}b{% else %}d{% endif %}", "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% if missing %}a{% endif %}b", "{% if missing.x is defined %}a{% endif %}b",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=5) }} {{ m() }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}", "{% macro m() %}{% set n = 9 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{% macro m(t) %}<{{ caller() }}>{{ t }}{% endmacro %}{% call m('x') %}body {{ n }}{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}+{{ b }}{% endcall %}",
    "{% macro m() %}  a\n  {% if t %}\n  b\n  {% endif %}\n{% endmacro %}[{{ m() }}]", "{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}", "{% macro f(n) %}{% for i in range(n) %}{{ i }}{% endfor %}{% endmacro %}{% for i in range(3) %}{{ f(i) }};{% endfor %}", "{% filter upper %}a {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set n = 1 %}{{ n }}{% endwith %}{{ n }}", "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}{% if add_generation_prompt %}x{% endif %}", "{% set x = {'a': [1, 2]} %}{{ x.a[1] }}", "{% set _ = 1 %}{{ _ }}", "{%set x=1%}{{x}}", "{%- for x in xs -%}\n  {{ x }}\n{%- endfor -%}", "{% for x in xs %}\n{{ x }}\n{% endfor %}\n.", "{% set i = 'items' %}{{ d[i] }}{{ d['b'] }}", "{% for p in people %}{{ p.name }}:{{ p.tags | default([]) | length }} {% endfor %}",
    "{% set loop_messages = messages[1:] %}{% for m in loop_messages %}{{ loop.index0 }}{{ m.role }}{% endfor %}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}", "{% if messages[0].role == 'user' and messages|length > 1 %}y{% endif %}", "{% for x in xs %}{% set x = x * 2 %}{{ x }}{% endfor %}", "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{{ 'a'\n~ 'b' }}", "{{ n }}{# x #}{{ n }}", "{% set x = namespace() %}{% set x.y = 3 %}{{ x.y }}",
]

# Errors.
TEMPLATES += [
    "{{ raise_exception('Only user and assistant roles are supported!') }}", "{% if t %}{{ raise_exception('no ' ~ n) }}{% endif %}", "{{ missing.x }}", "{{ missing() }}", "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ 1 + 'a' }}", "{{ d.zz.y }}", "{{ n() }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ n|nofilter }}", "{{ n is notest }}", "{% if %}{% endif %}", "{% for %}{% endfor %}", "{% if t %}", "{% endif %}", "{{ n", "{% n",
    "{{ }}", "{{ n n }}", "{{ (1 }}", "{{ [1 }}", "{{ 'a }}", "{# a", "{% nothing %}", "{% break %}", "{{ xs.append(1) }}", "{{ d.update({}) }}", "{{ xs|tojson(foo=1) }}", "{{ missing|tojson }}", "{{ 'a' < 1 }}", "{{ none < 1 }}", "{{ xs[missing] }}", "{{ xs|join(',', 1, 2, 3) }}", "{{ range(1, 2, 0) }}", "{{ 'a'.split('') }}", "{{ {[]: 1} }}", "{{ 'abc'.index('z') }}", "{{ n|items }}", "{{ n|length }}", "{% set d.x = 1 %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{{ '%s %s' % (1,) }}", "{{ '%s' % (1, 2) }}", "{{ -'a' }}", "{{ 5 in 5 }}", "{{ 1 in 'a' }}", "{{ '{}'.format() }}", "{{ xs[::0] }}", "{{ xs['a':] }}", "{% include 'x' %}", "{{ 'a' * 'b' }}", "{{ m(1) }}{% macro m(a) %}{% endmacro %}", "{% macro m(a, a2=1, b) %}{% endmacro %}", "{{ f(a=1, 2) }}", "{% endfor %}", "{% if t %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{{ n is in 5 }}", "{{ loop }}x", "{{ xs|map }}", "{{ xs|map('nofilter')|list }}", "{{ 1 is divisibleby 0 }}", "{{ ''|first|upper }}", "{{ namespace(1) }}", "{{ 'x'.center('a') }}", "{{ dict(1) }}", "{{ strftime_now() }}", "{{ @ }}", "{{ a ? b }}", "{{ a; }}", "{{ 1 +  }}", "{{ not }}", "{% set 1 = 2 %}", "{% set x %}", "{{ ']' ] }}",
]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def fail(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = fail
    env.globals["strftime_now"] = datetime.datetime(2026, 1, 2, 3, 4, 5).strftime
    return env


def main():
    env = environment()
    cases = []
    for source in TEMPLATES:
        try:
            text = env.from_string(source).render(**VARIABLES)
            if " at 0x" not in text:  # a generator of Python, where hearth has a list
                cases.append({"template": source, "text": text})
        except Exception as error:  # of any kind: TypeError and others of Python come through
            told = str(error) if "raise_exception" in source else None
            cases.append({"template": source, "error": told})
    out = {"jinja2": __version__, "variables": VARIABLES}
    text = json.dumps(out, ensure_ascii=True)[:-1] + ', "cases": [\n'
    text += ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases) + "\n]}\n"
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
