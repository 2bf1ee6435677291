"""`kavka completion bash|zsh|fish`: print a script that completes commands, their options and sub-commands."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys

from kavka.cli.main import COMMANDS

_USAGE = """usage: kavka completion bash|zsh|fish

Prints a script for the shell. To have it in every shell:
  bash   kavka completion bash >> ~/.bashrc
  zsh    kavka completion zsh >> ~/.zshrc
  fish   kavka completion fish > ~/.config/fish/completions/kavka.fish
In the present one, for a try:
  bash, zsh   source <(kavka completion bash), or zsh
  fish        kavka completion fish | source"""

_ASK = "--words"
"""With it the command prints what may follow the words behind it, a line for each; the scripts call it."""

_SCRIPTS = {
    "bash": """_kavka() {
    local IFS=$'\\n'
    COMPREPLY=($(kavka completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _kavka kavka
""",
    "zsh": """#compdef kavka
_kavka() {
    local -a found
    found=(${(f)"$(kavka completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -a found; else _files; fi
}
if [ "$funcstack[1]" = "_kavka" ]; then
    _kavka "$@"
else
    (( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit -i; }
    compdef _kavka kavka
fi
""",
    "fish": """function __kavka_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (kavka completion --words $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c kavka -f -a '(__kavka_complete)'
""",
}

_DEFINITIONS = re.compile(r"^\s*(?:(?:usage: |kavka |\().*|.*\[-.*|-.*?(?=  |$))", re.MULTILINE)
"""Lines of a help text that define options: of a usage, and of a table without its descriptions."""
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9.-]*[a-z0-9](?![\w-])|(?<![\w-])-[a-z](?![\w-])")
_POSITIONAL = re.compile(r"^positional arguments:\n((?:  .*\n)+)", re.MULTILINE)
_SUB_COMMAND = re.compile(r"^    ([a-z][a-zA-Z0-9-]*)(?=  |$)", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Print the script of a shell, or with `--words` what may stand for the last of the words; 1 for another shell."""
    if arguments[:1] == [_ASK]:
        print("".join(f"{word}\n" for word in candidates(arguments[1:])), end="")
        return 0
    if len(arguments) == 1 and arguments[0] in _SCRIPTS:
        print(_SCRIPTS[arguments[0]], end="")
        return 0
    is_help = arguments[:1] in (["--help"], ["-h"])
    print(_USAGE, file=sys.stdout if is_help else sys.stderr)
    return 0 if is_help else 1


def candidates(words: list[str]) -> list[str]:
    """Return what may stand for the last of the words behind `kavka`, sorted; nothing where a value or file belongs."""
    *before, present = words or [""]
    if not before:
        return sorted(name for name in COMMANDS if name.startswith(present))
    if before == ["completion"]:
        return sorted(name for name in _SCRIPTS if name.startswith(present))
    if before[0] not in COMMANDS:
        return []
    path = _path(before)
    text = _help_of(path)
    if present.startswith("-"):
        options = _OPTION.findall("\n".join(_DEFINITIONS.findall(text)))
        return sorted({option for option in options if option.startswith(present)})
    if before != path:  # a value, or a further word
        return []
    return sorted(name for name in _sub_commands(text) if name.startswith(present))


def _path(words: list[str]) -> list[str]:
    """Return the command and the sub-commands that the words begin with."""
    path = words[:1]
    for word in words[1:]:
        if word not in _sub_commands(_help_of(path)):
            break
        path.append(word)
    return path


def _sub_commands(text: str) -> list[str]:
    """Return the sub-commands that a help text lists."""
    listed = _POSITIONAL.search(text)
    return _SUB_COMMAND.findall(listed[1]) if listed else []


def _help_of(path: list[str]) -> str:
    """Return what a command prints for `--help`."""
    module = importlib.import_module(f"kavka.cli.commands.{path[0].replace('-', '_')}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            module.main([*path[1:], "--help"])
        except SystemExit:  # argparse ends so after its help
            return printed.getvalue()
    return printed.getvalue()
