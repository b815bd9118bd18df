/** A store on an engine that runs for all tests, opened once for each server. Every story has a new namespace. */

import { createId } from '../../../src/core/ids.ts'
import { type Backend, openBackend } from '../../../src/storage/open.ts'
import type { Shared } from '../../dispatch/cluster/stage.ts'

/** The address of a store. */
export interface Place extends AsyncDisposable {
  readonly url: string
  readonly redis?: string | undefined
}

/** Stores for stories, one after the other. */
export interface Stores {
  open(): Promise<Shared & AsyncDisposable>
  close(): Promise<void>
}

export function storesAt(openPlace: () => Promise<Place>): Stores {
  let place: Promise<Place> | undefined
  /** Kept from one story to the next: opening takes longer than most stories. */
  const backends: Promise<Backend>[] = []

  async function backendOf(nr: number, namespace: string): Promise<Backend> {
    place ??= openPlace()
    const { url, redis } = await place
    // The first server creates the schema, the others follow.
    if (nr > 0) await backends[0]
    backends[nr] ??= openBackend(url, { namespace: 'default', migrate: nr === 0, redis })
    const backend = await backends[nr]
    return { ...backend, ...backend.within(namespace) }
  }

  return {
    async open() {
      const namespace = `fleet-${createId()}`
      let next = 1
      return {
        backend: await backendOf(0, namespace),
        again: () => backendOf(next++, namespace),
        async [Symbol.asyncDispose]() {},
      }
    },
    async close() {
      await Promise.all(backends.map(async (backend) => (await backend).close()))
      await (await place)?.[Symbol.asyncDispose]()
    },
  }
}
