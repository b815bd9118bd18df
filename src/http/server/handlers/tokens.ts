import { everyNamespace, type ListedToken, type Token, type Tokens } from '../../../access/index.ts'
import { SignalboxError } from '../../../core/errors.ts'
import type { createToken, listTokens, revokeToken } from '../../contract/index.ts'
import type { Handler, Principal } from '../call.ts'

/** The routes of tokens, by their ids. */
export interface TokenHandlers {
  readonly listTokens: Handler<typeof listTokens>
  readonly createToken: Handler<typeof createToken>
  readonly revokeToken: Handler<typeof revokeToken>
}

/**
 * Whose namespace is one sees, makes and ends the tokens of that namespace only, and is not told that there are
 * others; a token of every namespace, or whoever is local, all of them.
 */
export function tokenHandlers(tokens: Tokens): TokenHandlers {
  return {
    async listTokens({ query, principal }) {
      const page = await tokens.list({
        limit: query.limit,
        cursor: query.cursor,
        namespace: principal.everyNamespace ? undefined : principal.namespace,
      })
      return { body: { items: page.items.map(withoutLive), cursor: page.cursor } }
    },

    async createToken({ body, principal }) {
      const { name, scope, nodes, namespace = principal.namespace, expiresInMs } = body
      if (!reaches(principal, namespace)) throw notYours(namespace)
      return { body: await tokens.create({ name, scope, nodes, namespace, expiresInMs }) }
    },

    async revokeToken({ params, principal }) {
      const token = principal.everyNamespace ? undefined : await tokens.find(params.id)
      // A token never changes its namespace, so what was read holds when it is written.
      if (!principal.everyNamespace && token?.namespace !== principal.namespace)
        throw new SignalboxError('not_found', 'There is no such token in this namespace.')
      return { body: await tokens.revoke(params.id) }
    },
  }
}

function reaches(principal: Principal, namespace: string): boolean {
  return principal.everyNamespace || namespace === principal.namespace
}

function notYours(namespace: string): SignalboxError {
  const whose = namespace === everyNamespace ? 'every namespace' : 'another namespace'
  return new SignalboxError(
    'forbidden',
    `A token of one namespace cannot make one for ${whose}. Leave namespace out, or ask who has a token of every namespace.`,
  )
}

function withoutLive({ live: _, ...token }: ListedToken): Token {
  return token
}
