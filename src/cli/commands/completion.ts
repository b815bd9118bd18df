import { Argument, type Command } from 'commander'
import type { CommandContext } from '../verbs.ts'
import { CliCommand } from './cli-command.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** `signalbox completion SHELL`: prints a script, generated from the commands, that lets a shell complete commands and flags. */
export function completionCommand({ printer }: CommandContext): Command {
  const command = new CliCommand('completion')
    .addArgument(new Argument('<shell>', 'your shell').choices(shells))
    .exampleLines(
      'source <(signalbox completion bash)',
      'signalbox completion zsh > ~/.zfunc/_signalbox',
      'signalbox completion fish > ~/.config/fish/completions/signalbox.fish',
    )
    .option('--json', 'print one line of JSON')
    .action((shell: Shell, { json }: { readonly json?: boolean }) => {
      const script = scriptFor(shell, wordsOf(command.parent!))
      if (json) printer.json({ shell, script })
      else printer.page(script)
    })
  return command
}

/**
 * The words that may follow each command, such as `jobs ls`. A flag with a list of values has its own entry, such as
 * `jobs ls --state`.
 */
type CompletionWords = ReadonlyMap<string, readonly string[]>

function wordsOf(program: Command): CompletionWords {
  const words = new Map<string, readonly string[]>()
  const visit = (command: Command, path: string) => {
    const flags = command.options.flatMap(({ long }) => long ?? [])
    for (const { long, argChoices } of command.options)
      if (argChoices) words.set(`${path} ${long}`, argChoices)
    const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? [])
    words.set(path, [...command.commands.map((sub) => sub.name()), ...choices, ...flags, '--help'])
    for (const sub of command.commands) visit(sub, path === '' ? sub.name() : `${path} ${sub.name()}`)
  }
  visit(program, '')
  return words
}

function scriptFor(shell: Shell, words: CompletionWords): string {
  if (shell === 'fish') return fishScript(words)
  const cases = [...words].map(([path, next]) => `    "${path}") echo "${next.join(' ')}" ;;`).join('\n')
  const lookup = `_signalbox_words() {\n  case "$1" in\n${cases}\n  esac\n}\n`
  return shell === 'bash' ? lookup + bashTail : `#compdef signalbox\n${lookup}${zshTail}`
}

/** The words before the typed word, without flags, are the command. If a flag precedes the typed word, its values complete it. */
const bashTail = `_signalbox() {
  local place="" word at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    [[ "$word" == -* ]] && continue
    [[ -n "$(_signalbox_words "\${place:+$place }$word")" ]] && place="\${place:+$place }$word"
  done
  word="\${COMP_WORDS[COMP_CWORD-1]}"
  [[ "$word" == -* && -n "$(_signalbox_words "$place $word")" ]] && place="$place $word"
  COMPREPLY=($(compgen -W "$(_signalbox_words "$place")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _signalbox signalbox
`

/** The variable is not called `path`, because in zsh that is PATH. */
const zshTail = `_signalbox() {
  local place="" word at
  for ((at = 2; at < CURRENT; at++)); do
    word="\${words[at]}"
    [[ "$word" == -* ]] && continue
    [[ -n "$(_signalbox_words "\${place:+$place }$word")" ]] && place="\${place:+$place }$word"
  done
  word="\${words[CURRENT-1]}"
  [[ "$word" == -* && -n "$(_signalbox_words "$place $word")" ]] && place="$place $word"
  compadd -- \${=$(_signalbox_words "$place")}
}
compdef _signalbox signalbox
`

function fishScript(words: CompletionWords): string {
  const paths = [...words.keys()].filter((path) => !path.includes(' --'))
  const lines = [...words]
    .filter(([path]) => !path.includes(' --'))
    .map(([path, next]) => {
      // Applies after the words of this command, and before the name of a subcommand.
      const here = path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
      const depth = path.split(' ').length
      const below = paths
        .filter((other) => other.startsWith(`${path} `))
        .map((other) => other.split(' ')[depth])
      if (below.length > 0) here.push(`not __fish_seen_subcommand_from ${below.join(' ')}`)
      const seen = path === '' ? '__fish_use_subcommand' : here.join('; and ')
      return `complete -c signalbox -f -n '${seen}' -a '${next.join(' ')}'`
    })
  return `${lines.join('\n')}\n`
}
