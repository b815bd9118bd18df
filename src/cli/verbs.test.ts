import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import type { Command } from 'commander'
import { test } from 'vitest'
import { twinsOf } from './config/flags.ts'
import { createPrinter } from './print.ts'
import { createProgram, everyCommand } from './run.ts'
import { verbs } from './verbs.ts'

/** The whole command line, where every command notes that it was called instead of doing anything. */
async function createStage() {
  const written = { out: '', err: '' }
  const printer = createPrinter(
    { write: (text: string) => (written.out += text) },
    { write: (text: string) => (written.err += text) },
    {},
  )
  const context = { printer, endWith: () => undefined, prepareServe: undefined }
  const program = await createProgram(
    context,
    verbs.map(({ name }) => name),
  )
  const called: { command: string; opts: Record<string, unknown> }[] = []
  for (const command of leavesOf(program))
    command.action(() => void called.push({ command: pathOf(command), opts: command.opts() }))
  return { program, called, written }
}

function leavesOf(program: Command): readonly Command[] {
  return everyCommand(program).filter(({ commands }) => commands.length === 0)
}

function pathOf(command: Command): string {
  return command.parent?.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name()
}

function helpOf(command: Command): string {
  let help = ''
  command.configureOutput({ writeOut: (text) => (help += text) })
  command.outputHelp()
  return help
}

/** The words of a command line, as a shell would have them, up to a pipe, a redirection or another command. */
function wordsOf(line: string): readonly string[] {
  const words: string[] = []
  for (const [, single, double, plain, end] of line.matchAll(
    /'([^']*)'|"((?:\\.|[^"])*)"|([^\s'"|<>;()]+)|([|<>;()])/g,
  )) {
    if (end !== undefined) break
    words.push(single ?? double ?? plain!)
  }
  return words
}

test('the table has each command with its own description, and covers every verb of the contract', async () => {
  const { program } = await createStage()
  const described = program.commands.map((command) => [command.name(), command.description()])
  assert.deepEqual(
    described,
    verbs.map(({ name, about }) => [name, about]),
  )
  const contract =
    'serve demo migrate doctor add jobs queues lock locks once nodes schedules monitor token config completion top bench'
  for (const verb of contract.split(' '))
    assert.ok(
      verbs.some(({ name }) => name === verb),
      verb,
    )
  const paths = leavesOf(program).map(pathOf)
  for (const path of [
    ...['jobs ls', 'jobs show', 'jobs retry', 'jobs cancel', 'queues ls', 'queues pause', 'queues resume'],
    ...['locks ls', 'locks evict', 'nodes ls', 'nodes drain', 'nodes cordon', 'nodes uncordon'],
    ...['tasks ls', 'tasks show', 'tasks cancel', 'tasks explain', 'monitor test', 'config print'],
  ])
    assert.ok(paths.includes(path), path)
})

test('every help has a purpose and examples, and every example can be parsed', async () => {
  const { program, called, written } = await createStage()
  let count = 0
  for (const command of everyCommand(program)) {
    const help = helpOf(command)
    assert.ok(command.description().length > 5, pathOf(command))
    const [, examples = ''] = help.split('\nExamples:\n')
    const lines = examples.split('\n').filter((line) => /\bsignalbox /.test(line) && line.startsWith('  '))
    assert.ok(lines.length > 0, `${pathOf(command)} has no examples`)
    const seen = called.length
    for (const line of lines.flatMap((line) => line.split(/(?=\bsignalbox )/).slice(1))) {
      const [, ...words] = wordsOf(line)
      const before = called.length
      await program.parseAsync(words, { from: 'user' }).catch((error: unknown) => {
        assert.fail(`${line}: ${written.err || String(error)}`)
      })
      assert.equal(called.length, before + 1, line)
      count++
    }
    const own = command === program ? '' : pathOf(command)
    assert.ok(
      called.slice(seen).some((call) => call.command.startsWith(own)),
      `${own} has no example`,
    )
  }
  assert.ok(count > 60, `${count} examples`)
})

test('every flag is shown with its environment variable, and no two flags share one by accident', async () => {
  const { program } = await createStage()
  const owners = new Map<string, string>()
  for (const command of everyCommand(program).slice(1)) {
    const help = helpOf(command).replaceAll(/\s+/g, ' ')
    for (const { long, envVar } of command.options) {
      assert.match(envVar ?? '', /^SIGNALBOX_[A-Z_]+$/, `${pathOf(command)} ${long}`)
      assert.ok(help.includes(`env: ${envVar}`), `${pathOf(command)} ${long}`)
      const owner = owners.get(envVar!) ?? long!
      assert.equal(long, owner, `${envVar} of ${pathOf(command)}`)
      owners.set(envVar!, owner)
    }
    for (const option of command.options)
      assert.ok(
        !['--token', '--password', '--secret'].includes(option.long!),
        'secrets are seen by others there',
      )
  }
  assert.deepEqual(new Set(twinsOf(program)), new Set(owners.keys()))
})

test('a variable counts where its flag is missing, and the flag wins', async () => {
  const { program, called } = await createStage()
  // These are looked up with all their sources; test/cli and config.test.ts have them.
  const settings = new Set(
    program.commands
      .find((command) => command.name() === 'serve')!
      .options.map(({ envVar }) => envVar!)
      .filter((name) => name !== 'SIGNALBOX_JSON'),
  )
  try {
    for (const command of leavesOf(program)) {
      const own = command.options.filter(({ envVar }) => !settings.has(envVar!) && envVar !== 'SIGNALBOX_URL')
      const expected = own.map((option) => {
        const isSwitch = option.isBoolean() || option.negate
        const text = isSwitch ? String(!option.negate) : (option.argChoices?.[0] ?? 'a,b')
        process.env[option.envVar!] = text
        const value = isSwitch ? !option.negate : option.variadic ? ['a', 'b'] : text
        return [option.attributeName(), value] as const
      })
      const args = command.registeredArguments.map(({ argChoices }) => argChoices?.[0] ?? 'x')
      const path = pathOf(command).split(' ')
      await program.parseAsync([...path, ...args], { from: 'user' })
      const { opts } = called.at(-1)!
      for (const [name, value] of expected) assert.deepEqual(opts[name], value, `${pathOf(command)}: ${name}`)
      const [first] = own.filter((option) => option.required && !option.variadic && !option.argChoices)
      if (first) {
        await program.parseAsync([...path, `${first.long}=flag`, ...args], { from: 'user' })
        assert.equal(called.at(-1)!.opts[first.attributeName()], 'flag', pathOf(command))
      }
    }
    process.env.SIGNALBOX_JSON = 'maybe'
    await assert.rejects(program.parseAsync(['queues', 'ls'], { from: 'user' }), {
      code: 'invalid_argument',
      message: 'SIGNALBOX_JSON must be true or false, not "maybe".',
    })
  } finally {
    for (const name of twinsOf(program)) delete process.env[name]
  }
})

test('every command can answer in JSON', async () => {
  const { program } = await createStage()
  for (const command of leavesOf(program))
    assert.ok(
      command.options.some(({ long }) => long === '--json'),
      pathOf(command),
    )
})

test('bash completes commands, flags and the words that flags take', async () => {
  const { run } = await import('./run.ts')
  let script = ''
  const out = { write: (text: string) => (script += text) }
  assert.equal(await run(['completion', 'bash'], createPrinter(out, out, {})), 0)
  const complete = (...words: string[]) => {
    const quoted = words.map((word) => `'${word}'`).join(' ')
    const asked = `COMP_WORDS=(signalbox ${quoted}); COMP_CWORD=${words.length}; _signalbox; echo "\${COMPREPLY[*]}"`
    return execFileSync('bash', ['-c', `${script}\n${asked}`], { encoding: 'utf8' }).trim()
  }
  assert.equal(complete('que'), 'queues')
  assert.equal(complete('queues', 'p'), 'pause')
  assert.equal(complete('jobs', 'ls', '--sea'), '--search')
  assert.equal(complete('top', '--pane', 'l'), 'locks')
  assert.equal(complete('jobs', 'bulk', 're'), 'retry')
  assert.equal(complete('token', 'create', '--name', 'x', '--scope', 'w'), 'work')
  assert.equal(complete('bench', ''), 'jobs locks once --seconds --json --database --redis --config --help')
})

test('the command line pages cover every command and every exit code', async () => {
  const { readFile } = await import('node:fs/promises')
  const { exitCodes } = await import('./run.ts')
  const { lockExitCodes } = await import('./commands/locks.ts')
  const { onceExitCodes } = await import('./commands/locks.ts')
  const pages = ['cli.md', 'cli-operations.md'].map((name) =>
    readFile(new URL(`../../docs/${name}`, import.meta.url), 'utf8'),
  )
  const page = (await Promise.all(pages)).join('\n')
  const headings = page.split('\n').filter((line) => line.startsWith('## '))
  for (const { name } of verbs)
    assert.ok(
      headings.some((line) => new RegExp(`\`signalbox ${name}[ \`]`).test(line)),
      name,
    )
  const codes = [exitCodes, lockExitCodes, onceExitCodes].flatMap((of) => Object.values(of))
  for (const code of codes) assert.match(page, new RegExp(`^\\| ${code} \\| `, 'm'), String(code))
})
