import { type Command, Option } from 'commander'
import type {
  CreateTokenOptions,
  ListedToken,
  ListTokensOptions,
  Scope,
  Token,
  Tokens,
} from '../../access/index.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { addDatabaseFlags, resolveDatabase } from '../config/flags.ts'
import { nameOfDatabase, spanOf } from '../config/value-kinds.ts'
import { type Cell, type Printer, printList } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { type BoxFlags, CliCommand, type Flags, readAll, remoteOptions, serverOf } from './cli-command.ts'

/**
 * `signalbox token create|list|revoke`: the tokens of a server, or of a database. On a server the command needs a token
 * with the scope admin. On a database it needs none, because a user who can open the database can do everything. So an
 * operator who lost the last token can create another.
 */
export function tokenCommand({ printer }: CommandContext): Command {
  return new CliCommand('token').group(createCommand(printer), listCommand(printer), revokeCommand(printer))
}

/** Repeated here, so that the help does not load the module of access. */
const scopes: readonly Scope[] = ['read', 'work', 'admin']

type CreateFlags = Flags<'expires'> & {
  readonly name: string
  readonly scope?: Scope
  readonly node?: readonly string[]
  readonly namespace: string
}

function createCommand(printer: Printer): CliCommand {
  const command = new CliCommand('create', 'create a token and print its secret, which is not stored')
    .requiredOption('--name <text>', 'a name for people')
    .addOption(
      new Option('--scope <scope>', 'its rights; each scope includes those before it').choices(scopes),
    )
    .option('--node <id...>', 'bind it to these nodes; it can then only connect as them, with the scope work')
    .option('--namespace <name>', 'its namespace, or * for all', 'default')
    .option('--expires <span>', 'how long it is valid, such as 12h or 90d (default: until it is revoked)')
    .exampleLines(
      'signalbox token create --name ci --scope work',
      'signalbox token create --name grafana --scope read --expires 90d --json',
      'SIGNALBOX_DATABASE=postgres://app@db/shop signalbox token create --name ops --scope admin --namespace "*"',
      'signalbox token create --name gpu-7 --node gpu-7',
      'umask 077; signalbox token create --name worker --scope work > worker.token',
    )
    .action(async ({ json, name, node, namespace, expires, url, ...flags }: CreateFlags) => {
      const scope = flags.scope ?? (node === undefined ? undefined : 'work')
      if (scope === undefined) return command.error("error: required option '--scope <scope>' not specified")
      await withTokens(command, url, 'make', async (tokens) => {
        const token = await tokens.create({
          name,
          scope,
          namespace,
          nodes: node,
          expiresInMs: spanOf('--expires', expires),
        })
        // Only the secret, so that a shell can write it to a file or a variable. `list` shows the rest.
        printer.answer(json, token, token.secret)
      })
      if (scope !== 'admin' && isOpenServer(command, url)) printer.problem(closesServer)
    })
  return finish(command)
}

function listCommand(printer: Printer): CliCommand {
  const command = new CliCommand('ls', 'list tokens, including expired and revoked ones')
    .option('--namespace <name>', 'only this namespace')
    .examples('token ls', 'token ls --namespace shop --json', 'token ls --url https://jobs.example.com')
    .action(async ({ json, namespace, url }: BoxFlags) => {
      await withTokens(command, url, 'look', async (tokens) => {
        const items = await listAll(tokens, namespace)
        if (json) printer.json({ items })
        else printList(printer, { items }, 'There are no tokens.', heads, rowOf)
      })
    })
  return finish(command)
}

function revokeCommand(printer: Printer): CliCommand {
  const command = new CliCommand(
    'revoke',
    'revoke a token; servers obey within 5 seconds, also for open streams',
  )
    .argument('<id>', 'the id of the token, as list shows it')
    .examples('token revoke 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, url }: BoxFlags) => {
      const { isSecret } = await import('../../access/index.ts')
      if (isSecret(id))
        throw invalidArgument(
          'This is the secret of a token, not its id. The id is the part between the first two underscores.',
        )
      await withTokens(command, url, 'look', async (tokens) => {
        const token = await tokens.revoke(id)
        printer.answer(json, token, `revoked ${token.id} ${token.name}`)
      })
    })
  return finish(command)
}

function finish(command: CliCommand): CliCommand {
  return addDatabaseFlags(
    command
      .option('--url <url>', 'the server to use; SIGNALBOX_TOKEN holds an admin token')
      .option('--json', 'print one line of JSON'),
  )
}

/** The methods of tokens that a server has too. A server does not send `live`, but the instants. */
interface TokenVerbs extends Pick<Tokens, 'revoke'> {
  create(token: CreateTokenOptions): Promise<Token & { readonly secret: string }>
  list(options: ListTokensOptions): Promise<{
    readonly items: readonly (Token & { readonly live?: boolean })[]
    readonly cursor: string | null
  }>
}

/** Whether the server accepted the request without a token: then it required none until now. */
function isOpenServer(command: Command, url: string | undefined): boolean {
  return serverOf(command, { url }) !== undefined && !process.env.SIGNALBOX_TOKEN
}

const closesServer =
  'This server now requires a token, and this token cannot create others. To create an admin token, use the database of the server: signalbox token create --name ops --scope admin --database URL'

/**
 * Calls `use` with the tokens of the named server, else of the database. `make` creates a missing SQLite file and schema,
 * as a server would; `look` refuses a missing one.
 */
async function withTokens(
  command: Command,
  url: string | undefined,
  mode: 'make' | 'look',
  use: (tokens: TokenVerbs) => Promise<void>,
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

async function listAll(tokens: TokenVerbs, namespace: string | undefined): Promise<readonly ListedToken[]> {
  const items = await readAll((cursor) => tokens.list({ limit: 500, namespace, cursor }))
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
