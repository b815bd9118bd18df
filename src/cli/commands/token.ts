import { type Command, Option } from 'commander'
import type { ListedToken, Scope, Token, Tokens } from '../../access/index.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { addDatabaseFlags, resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase, spanOf } from '../config/value-kinds.ts'
import { type Cell, type Printer, printList } from '../print.ts'
import type { Stage } from '../verbs.ts'
import { type Flags, type PlaceFlags, readAll, remoteOptions, serverOf, Verb } from './place.ts'

/**
 * `signalbox token create|list|revoke`: the tokens of a server, or of a database without a server. On a server it needs a
 * token with the scope admin. On a database it needs none, because a user who can open the database can do everything
 * already; this is the way in when the last token is lost.
 */
export function tokenCommand({ printer }: Stage): Command {
  return new Verb('token').group(createCommand(printer), listCommand(printer), revokeCommand(printer))
}

/** Repeated here, so that the help does not load the module of access. */
const scopes: readonly Scope[] = ['read', 'work', 'admin']

type CreateFlags = Flags<'expires'> & {
  readonly name: string
  readonly scope?: Scope
  readonly node?: readonly string[]
  readonly namespace: string
}

function createCommand(printer: Printer): Verb {
  const command = new Verb('create', 'create a token and print its secret, which is not stored')
    .requiredOption('--name <text>', 'a name for people')
    .addOption(
      new Option('--scope <scope>', 'its rights; each scope includes those before it').choices(scopes),
    )
    .option('--node <id...>', 'bind it to these nodes; it can then only connect as them, with the scope work')
    .option('--namespace <name>', 'its namespace, or * for all', 'default')
    .option('--expires <span>', 'how long it is valid, such as 12h or 90d (default: until it is revoked)')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox token create --name ci --scope work\n  signalbox token create --name grafana --scope read --expires 90d --json\n  SIGNALBOX_DATABASE=postgres://app@db/shop signalbox token create --name ops --scope admin --namespace "*"\n  signalbox token create --name gpu-7 --node gpu-7\n  umask 077; signalbox token create --name worker --scope work > worker.token',
    )
    .action(async ({ json, name, node, namespace, expires, url, ...flags }: CreateFlags) => {
      const scope = flags.scope ?? (node === undefined ? undefined : 'work')
      if (scope === undefined) return command.error("error: required option '--scope <scope>' not specified")
      await withTokens(command, url, 'make', async (tokens) => {
        const token = await tokens.create({
          name,
          scope,
          namespace,
          ...(node && { nodes: node }),
          ...(expires !== undefined && { expiresInMs: spanOf('--expires', expires) }),
        })
        // The secret alone, so that it can be sent to a file or a variable; `list` shows the rest.
        if (json) printer.json(token)
        else printer.line(token.secret)
      })
      if (scope !== 'admin' && isOpenServer(command, url)) printer.problem(closesServer)
    })
  return finish(command)
}

function listCommand(printer: Printer): Verb {
  const command = new Verb('ls', 'list tokens, including expired and revoked ones')
    .option('--namespace <name>', 'only this namespace')
    .examples('token ls', 'token ls --namespace shop --json', 'token ls --url https://jobs.example.com')
    .action(async ({ json, namespace, url }: PlaceFlags) => {
      await withTokens(command, url, 'look', async (tokens) => {
        const items = await listAll(tokens, namespace)
        if (json) printer.json({ items })
        else printList(printer, { items }, 'There are no tokens.', heads, rowOf)
      })
    })
  return finish(command)
}

function revokeCommand(printer: Printer): Verb {
  const command = new Verb('revoke', 'revoke a token; servers obey within 5 seconds, also for open streams')
    .argument('<id>', 'the id of the token, as list shows it')
    .examples('token revoke 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, url }: PlaceFlags) => {
      const { isSecret } = await import('../../access/index.ts')
      if (isSecret(id))
        throw invalidArgument(
          'This is the secret of a token, not its id. The id is the part between the first two underscores.',
        )
      await withTokens(command, url, 'look', async (tokens) => {
        const token = await tokens.revoke(id)
        if (json) printer.json(token)
        else printer.line(`revoked ${token.id} ${token.name}`)
      })
    })
  return finish(command)
}

function finish(command: Verb): Verb {
  return addDatabaseFlags(
    command
      .option('--url <url>', 'the server to use; SIGNALBOX_TOKEN holds an admin token')
      .option('--json', 'print one line of JSON'),
  )
}

/** The verbs of tokens that a server has too. It does not send `live`; the instants say it. */
interface PlacedTokens extends Pick<Tokens, 'revoke'> {
  create(token: {
    readonly name: string
    readonly scope: Scope
    readonly namespace: string
    readonly nodes?: readonly string[]
    readonly expiresInMs?: number
  }): Promise<Token & { readonly secret: string }>
  list(options: { readonly namespace?: string; readonly limit?: number; readonly cursor?: string }): Promise<{
    readonly items: readonly (Token & { readonly live?: boolean })[]
    readonly cursor: string | null
  }>
}

/** Whether the server created the token without authentication, so it was open until now. */
function isOpenServer(command: Command, url: string | undefined): boolean {
  return serverOf(command, { url }) !== undefined && !process.env.SIGNALBOX_TOKEN
}

const closesServer =
  'This server now requires a token, and this token cannot create others. To create an admin token, use the database of the server: signalbox token create --name ops --scope admin --database URL'

/**
 * The tokens of a server where one is named, else of the database. `make` brings SQLite's file and schema into being, as
 * a server would; `look` leaves what is not there alone.
 */
async function withTokens(
  command: Command,
  url: string | undefined,
  mode: 'make' | 'look',
  use: (tokens: PlacedTokens) => Promise<void>,
): Promise<void> {
  const server = serverOf(command, { url })
  if (server !== undefined) {
    const { createClient } = await import('../../http/client/index.ts')
    await using client = createClient(server, remoteOptions())
    return await use(client.tokens)
  }
  const database = resolveDatabase(command)
  if (database.startsWith('memory:'))
    throw invalidArgument(
      'A memory: database would lose the token with this command. Name another with --database, or a server with --url.',
    )
  // Imported here, so that other commands and the help do not load an engine first.
  const { openMigrator } = await import('../../storage/index.ts')
  const { openBackend } = await import('../../storage/open.ts')
  const { createTokens } = await import('../../access/index.ts')
  if (mode === 'look') {
    await using migrator = await openMigrator(database)
    const reason = `${nameOfDatabase(database)} has no Signalbox tables, so it has no tokens.`
    if ((await migrator.status()).current === 0) throw new SignalboxError('schema_missing', reason)
  }
  await using backend = await openBackend(database, { namespace: 'default', migrate: false })
  await use(createTokens({ store: backend.tokens }))
}

async function listAll(tokens: PlacedTokens, namespace: string | undefined): Promise<readonly ListedToken[]> {
  const given = namespace === undefined ? {} : { namespace }
  const items = await readAll((cursor) =>
    tokens.list({ limit: 500, ...given, ...(cursor === undefined ? {} : { cursor }) }),
  )
  return items.map((token) => ({ ...token, live: token.live ?? isLive(token) }))
}

const heads = ['=ID', 'SCOPE', 'NAMESPACE', 'STATE', 'EXPIRES', 'NODES', 'NAME']

function rowOf(token: ListedToken): readonly Cell[] {
  const { id, scope, namespace, expiresAt, nodes, name } = token
  const expires = expiresAt === null ? 'never' : new Date(expiresAt).toISOString()
  return [id, scope, namespace, stateOf(token), expires, nodes === null ? '-' : nodes.join(','), name]
}

/** By this machine's clock. */
function isLive({ revokedAt, expiresAt }: Token): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > Date.now())
}

function stateOf({ live, revokedAt }: ListedToken): string {
  if (live) return 'live'
  return revokedAt === null ? 'expired' : 'revoked'
}
