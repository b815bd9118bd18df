import { Command, Option } from 'commander'
import type { ListedToken, Scope, Tokens } from '../../access/index.ts'
import { SignalboxError } from '../../core/errors.ts'
import { addDatabaseFlags, resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase } from '../config/kinds.ts'
import type { Printer } from '../print.ts'
import { spanOf } from '../span.ts'

/**
 * `signalbox token create|list|revoke`: the tokens of a database, without a server. Whoever may open the database may
 * do everything already, so this needs no token itself and is the way in when the last one is lost.
 */
export function tokenCommand(printer: Printer): Command {
  return new Command('token')
    .description('make, list and revoke the tokens that let clients speak to the server')
    .helpOption('-h, --help', 'print this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox token create --name ci --scope work\n  signalbox token ls\n  signalbox token revoke 01k9z3v8qe0m4t9wq3rb5c7xkd',
    )
    .addCommand(createCommand(printer))
    .addCommand(listCommand(printer))
    .addCommand(revokeCommand(printer))
}

/** As access has them; said again here, so that a line of help does not load the room. */
const scopes: readonly Scope[] = ['read', 'work', 'admin']

interface CreateFlags {
  readonly name: string
  readonly scope?: Scope
  readonly node?: readonly string[]
  readonly namespace: string
  readonly expires?: string
  readonly json?: boolean
}

function createCommand(printer: Printer): Command {
  const command = new Command('create')
    .description('make a token; its secret is printed once, and kept nowhere')
    .requiredOption('--name <text>', 'whose it is, for people')
    .addOption(new Option('--scope <scope>', 'what it may do; each includes those before it').choices(scopes))
    .option('--node <id...>', 'a node it may connect as, and it may do nothing else; its scope is work')
    .option('--namespace <name>', 'the namespace it speaks for, or * for every one', 'default')
    .option('--expires <span>', 'how long it counts, such as 12h or 90d (default: until it is revoked)')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox token create --name ci --scope work\n  signalbox token create --name grafana --scope read --expires 90d --json\n  SIGNALBOX_DATABASE=postgres://app@db/shop signalbox token create --name ops --scope admin --namespace "*"\n  signalbox token create --name gpu-7 --node gpu-7\n  umask 077; signalbox token create --name worker --scope work > worker.token',
    )
    .action(async ({ json, name, node, namespace, expires, ...flags }: CreateFlags) => {
      const scope = flags.scope ?? (node === undefined ? undefined : 'work')
      if (scope === undefined) return command.error("error: required option '--scope <scope>' not specified")
      await withTokens(resolveDatabase(command), 'make', async (tokens) => {
        const token = await tokens.create({
          name,
          scope,
          nodes: node,
          namespace,
          expiresInMs: spanOf('--expires', expires),
        })
        // The secret alone, so that it can be sent to a file or a variable; `list` shows the rest.
        if (json) printer.json(token)
        else printer.line(token.secret)
      })
    })
  return finish(command)
}

function listCommand(printer: Printer): Command {
  const command = new Command('ls')
    .alias('list')
    .description('list the tokens, also those that ended')
    .option('--namespace <name>', 'only those of this namespace')
    .addHelpText('after', '\nExamples:\n  signalbox token ls\n  signalbox token ls --namespace shop --json')
    .action(async ({ json, namespace }: { readonly json?: boolean; readonly namespace?: string }) => {
      await withTokens(resolveDatabase(command), 'look', async (tokens) => {
        const items = await listAll(tokens, namespace)
        if (json) printer.json({ items })
        else for (const line of asTable(items)) printer.line(line)
      })
    })
  return finish(command)
}

function revokeCommand(printer: Printer): Command {
  const command = new Command('revoke')
    .description('end a token; servers obey within 5 seconds, for open streams too')
    .argument('<id>', 'the id of the token, as list shows it')
    .addHelpText('after', '\nExamples:\n  signalbox token revoke 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json }: { readonly json?: boolean }) => {
      const { isSecret } = await import('../../access/index.ts')
      if (isSecret(id))
        throw new SignalboxError(
          'invalid_argument',
          'This is the secret of a token, not its id. The id is the part between the first two underscores.',
        )
      await withTokens(resolveDatabase(command), 'look', async (tokens) => {
        const token = await tokens.revoke(id)
        if (json) printer.json(token)
        else printer.line(`revoked ${token.id} ${token.name}`)
      })
    })
  return finish(command)
}

function finish(command: Command): Command {
  return addDatabaseFlags(
    command.option('--json', 'answer with one line of JSON').helpOption('-h, --help', 'print this help'),
  )
}

/** `make` brings SQLite's file and schema into being, as a server would; `look` leaves what is not there alone. */
async function withTokens(
  database: string,
  mode: 'make' | 'look',
  use: (tokens: Tokens) => Promise<void>,
): Promise<void> {
  if (database.startsWith('memory:'))
    throw new SignalboxError(
      'invalid_argument',
      'A memory: database has no tokens that outlive this command.',
    )
  // Imported here, so that other commands and the help do not load an engine first.
  const { openMigrator } = await import('../../backends/index.ts')
  const { openBackend } = await import('../../backends/open.ts')
  const { createTokens } = await import('../../access/index.ts')
  if (mode === 'look') {
    await using migrator = await openMigrator(database)
    const { current } = await migrator.status()
    if (current === 0)
      throw new SignalboxError(
        'schema_missing',
        `${nameOfDatabase(database)} has no Signalbox tables, so it has no tokens.`,
      )
  }
  await using backend = await openBackend(database, { namespace: 'default', migrate: false })
  await use(createTokens({ store: backend.tokens }))
}

async function listAll(tokens: Tokens, namespace: string | undefined): Promise<readonly ListedToken[]> {
  const items: ListedToken[] = []
  let cursor: string | undefined
  do {
    const page = await tokens.list({ namespace, limit: 500, cursor })
    items.push(...page.items)
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  return items
}

function asTable(tokens: readonly ListedToken[]): readonly string[] {
  const heads = ['ID', 'SCOPE', 'NAMESPACE', 'STATE', 'EXPIRES', 'NODES', 'NAME']
  const rows = tokens.map((token) => [
    token.id,
    token.scope,
    token.namespace,
    stateOf(token),
    token.expiresAt === null ? 'never' : new Date(token.expiresAt).toISOString(),
    token.nodes === null ? '-' : token.nodes.join(','),
    token.name,
  ])
  const widths = heads.map((_, column) => Math.max(...[heads, ...rows].map((row) => row[column]!.length)))
  return [heads, ...rows].map((row) =>
    row.map((cell, column) => (column === heads.length - 1 ? cell : cell.padEnd(widths[column]!))).join('  '),
  )
}

function stateOf({ live, revokedAt }: ListedToken): string {
  if (live) return 'live'
  return revokedAt === null ? 'expired' : 'revoked'
}
