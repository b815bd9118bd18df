import type { Duration } from '../core/duration.ts'
import { invalidArgument, SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { duration, oneOf, onlyKeys, show, text, whole } from '../core/options.ts'
import { createSecret, isSecret, type PresentedSecret, presentSecret, sameDigest } from './secret.ts'
import { type Scope, scopes, type Token, type TokenRecord, type TokenStore } from './token-store.ts'

/** Creates, lists, revokes and verifies tokens. */
export interface Tokens {
  /** Creates a token. Only this answer has its secret. */
  create(options: CreateTokenOptions): Promise<TokenWithSecret>
  find(id: string): Promise<ListedToken | undefined>
  /** Lists tokens, oldest first, with expired and revoked ones. */
  list(options?: ListTokensOptions): Promise<TokenPage>
  /** Revokes a token. A second call changes nothing. Throws `not_found`. */
  revoke(id: string): Promise<Token>
  /** Returns the live token of this secret; undefined: there is none. Accepts any text. */
  verify(secret: string): Promise<Token | undefined>
}

export interface CreateTokenOptions {
  /** A name for operators. */
  readonly name: string
  readonly scope: Scope
  /** Up to 100 ids of nodes: the token may only connect as these nodes, with the scope `work`. @default not bound */
  readonly nodes?: readonly string[] | null | undefined
  /** The namespace of its requests; `*`: all namespaces. */
  readonly namespace: string
  /** How long the token is valid: milliseconds, or text such as '30d'. @default for ever */
  readonly expiresInMs?: Duration | null | undefined
}

export interface TokenWithSecret extends Token {
  readonly secret: string
}

export interface ListTokensOptions {
  /** @default all */
  readonly namespace?: string | undefined
  /** @default 50 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined
}

export interface TokenPage {
  readonly items: readonly ListedToken[]
  readonly cursor: string | null
}

/** A token, and whether it is live now by the store's clock. */
export interface ListedToken extends Token {
  readonly live: boolean
}

/** How a token changed. `unknown`: the store failed, so the change may or may not be written. */
export type TokenChange = 'created' | 'revoked' | 'unknown'

/** The parts of the service of tokens. */
export interface TokensParts {
  readonly store: TokenStore
  /** Called after a token was created or revoked here, also if that is uncertain. Must not throw. */
  readonly onChange?: (id: string, change: TokenChange) => void
}

const maxSpanMs = 3_155_760_000_000
const maxNodes = 100

/** Creates the service of tokens on a store. */
export function createTokens({ store, onChange = () => {} }: TokensParts): Tokens {
  return {
    async create(options) {
      onlyKeys('token', options, ['name', 'scope', 'nodes', 'namespace', 'expiresInMs'])
      const { expiresInMs } = options
      const id = createId()
      const secret = createSecret(id)
      const scope = oneOf('token.scope', options.scope, scopes)
      const token = {
        id,
        name: text('token.name', options.name),
        scope,
        nodes: checkNodes(options.nodes ?? null, scope),
        namespace: text('token.namespace', options.namespace),
        digest: presentSecret(secret).digest,
        expiresInMs:
          expiresInMs === undefined || expiresInMs === null
            ? null
            : duration('token.expiresInMs', expiresInMs, { min: 1, max: maxSpanMs }),
      }
      let change: TokenChange = 'unknown'
      try {
        const record = await store.create(token)
        change = 'created'
        return { ...tokenOf(record), secret }
      } finally {
        onChange(id, change)
      }
    },

    async find(id) {
      const [record] = await store.find([id])
      return record && listed(record)
    },

    async list({ namespace, limit = 50, cursor } = {}) {
      whole('tokens.limit', limit, { min: 1, max: 500 })
      // One more record shows whether there is a next page.
      const records = await store.list({
        limit: limit + 1,
        ...(namespace !== undefined && { namespace }),
        ...(cursor !== undefined && { after: cursor }),
      })
      const items = records.slice(0, limit).map(listed)
      return { items, cursor: records.length > limit ? items.at(-1)!.id : null }
    },

    async revoke(id) {
      let change: TokenChange = 'unknown'
      try {
        const record = await store.revoke(id)
        if (!record) throw noSuchToken(id)
        change = 'revoked'
        return tokenOf(record)
      } finally {
        onChange(id, change)
      }
    },

    async verify(secret) {
      const presented = presentSecret(secret)
      const [record] = presented.id === undefined ? [] : await store.find([presented.id])
      return judgePresented(presented, record)
    },
  }
}

/** Returns the ids sorted and without duplicates, so that their order makes no difference. */
function checkNodes(nodes: readonly string[] | null, scope: Scope): readonly string[] | null {
  if (nodes === null) return null
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > maxNodes) throw notNodes(nodes)
  const ids = [...new Set(nodes.map((id, index) => text(`token.nodes[${index}]`, id)))]
  if (scope === 'work') return ids.sort()
  throw invalidArgument(
    `A token for nodes has the scope "work", not "${scope}": it connects as a node and does nothing else.`,
    'token.scope',
  )
}

function notNodes(value: unknown): SignalboxError {
  return invalidArgument(
    `token.nodes must be a list of 1 to ${maxNodes} ids of nodes, not ${show(value)}.`,
    'token.nodes',
  )
}

const noDigest = '0'.repeat(64)

/** Returns the live token of a secret. An unknown id takes the same comparison as a known id. */
export function judgePresented(
  presented: PresentedSecret,
  record: TokenRecord | undefined,
): Token | undefined {
  const same = sameDigest(presented.digest, record?.digest ?? noDigest)
  return same && record?.live ? tokenOf(record) : undefined
}

/** The error for an unknown token. If the caller gave a secret instead of an id, the message does not repeat it. */
function noSuchToken(id: string): SignalboxError {
  const named = isSecret(id) ? 'with a secret for its id' : show(id)
  return new SignalboxError('not_found', `There is no token ${named}. List them to see their ids.`)
}

function listed(record: TokenRecord): ListedToken {
  return { ...tokenOf(record), live: record.live }
}

/** Returns the token without its digest. It copies field by field, so that a new field of a store is not shown by accident. */
export function tokenOf(record: Token): Token {
  const { id, name, scope, nodes, namespace, createdAt, expiresAt, revokedAt } = record
  return { id, name, scope, nodes, namespace, createdAt, expiresAt, revokedAt }
}
