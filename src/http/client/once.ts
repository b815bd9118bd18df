import {
  type ClaimOnceBody,
  claimOnce,
  type DoneOnceBody,
  doneOnce,
  type ForgetOnceBody,
  failOnce,
  forgetOnce,
  type GuardTokenBody,
  type ListGuardsQuery,
  listGuards,
  onceStats,
  type RenewOnceBody,
  renewOnce,
  type SeenOnceBody,
  type ShapeOf,
  seenOnce,
} from '../contract/index.ts'
import type { Client } from './client.ts'

/** What a claim of one key came to. */
export type WireClaimed = Exclude<ShapeOf<typeof claimOnce>['reply'], { readonly items: unknown }>

/** The verbs of guards, over HTTP. Whoever wants a guard that renews itself opens a box with `open(url)`. */
export interface OnceClient {
  claim(request: Omit<ClaimOnceBody, 'keys'> & { readonly key: string }): Promise<WireClaimed>
  /** One answer per key, in order. */
  claimMany(
    request: Omit<ClaimOnceBody, 'key'> & { readonly keys: readonly string[] },
  ): Promise<readonly WireClaimed[]>
  /** Throws `lease_lost`. */
  done(request: DoneOnceBody): Promise<ShapeOf<typeof doneOnce>['reply']>
  /** Throws `lease_lost`. */
  fail(request: GuardTokenBody): Promise<ShapeOf<typeof failOnce>['reply']>
  /** When the claim ends now. Throws `lease_lost`. */
  renew(request: RenewOnceBody): Promise<ShapeOf<typeof renewOnce>['reply']>
  forget(request: ForgetOnceBody): Promise<boolean>
  seen(request: SeenOnceBody): Promise<ShapeOf<typeof seenOnce>['reply']>
  list(query?: ListGuardsQuery): Promise<ShapeOf<typeof listGuards>['reply']>
  stats(): Promise<ShapeOf<typeof onceStats>['reply']>
}

export function createOnceClient(client: Pick<Client, 'call'>): OnceClient {
  return {
    claim: async (body) => (await client.call(claimOnce, { body })) as WireClaimed,
    async claimMany(body) {
      const maxReplyBytes = claimBytes * body.keys.length + 1_048_576
      const { items } = (await client.call(claimOnce, { body, maxReplyBytes })) as {
        readonly items: readonly WireClaimed[]
      }
      return items
    },
    done: (body) => client.call(doneOnce, { body }),
    fail: (body) => client.call(failOnce, { body }),
    renew: (body) => client.call(renewOnce, { body }),
    forget: async (body) => (await client.call(forgetOnce, { body })).forgotten,
    seen: (body) => client.call(seenOnce, { body }),
    list: (query = {}) => client.call(listGuards, { query }),
    stats: () => client.call(onceStats),
  }
}

/** A result that was kept, written out: an answer that is not read would leave keys claimed that nobody knows of. */
const claimBytes = 2 * 262_144
