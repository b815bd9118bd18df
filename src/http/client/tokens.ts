import {
  type CreatedToken,
  type CreateTokenBody,
  createToken,
  type ListTokensQuery,
  listTokens,
  revokeToken,
  type ShapeOf,
} from '../contract/index.ts'
import type { Client } from './client.ts'

/** The verbs of tokens, over HTTP; they need a token of the scope `admin`. */
export interface TokensClient {
  /** Makes a token; its `secret` is in this answer alone. Never repeated by itself: each time would make another. */
  create(token: CreateTokenBody): Promise<CreatedToken>
  /** A page of tokens, oldest first, also of those that ended. */
  list(options?: ListTokensQuery): Promise<ShapeOf<typeof listTokens>['reply']>
  /** Ends it. Throws `not_found`. */
  revoke(id: string): Promise<ShapeOf<typeof revokeToken>['reply']>
}

export function createTokensClient(client: Pick<Client, 'call'>): TokensClient {
  return {
    create: (token) => client.call(createToken, { body: token }),
    list: (options) => client.call(listTokens, { query: options }),
    revoke: (id) => client.call(revokeToken, { params: { id } }),
  }
}
