import {
  type BulkOptions,
  type BulkVerbs,
  type Jobs,
  type ListOptions,
  openShown,
  type Sealer,
  type SearchPage,
} from '../../jobs/index.ts'
import type { Client } from '../client/index.ts'
import { objectOf, withoutUndefined } from './encode.ts'
import { inParallel } from './parallel.ts'

/** A sealer may have to ask a key service for each. */
const openingAtOnce = 100

/** What looks at many jobs is done where they are kept. */
export function createRemoteBulk(client: Client): BulkVerbs {
  const { jobs } = client
  const verbs = {
    bulk: async (options: BulkOptions) => jobs.bulk(withoutUndefined(options)),
    bulkOperation: (id: string) => jobs.bulkOperation(id),
    bulkOperations: async (options: { readonly limit?: number | undefined } = {}) =>
      jobs.bulkOperations(withoutUndefined(options)),
    cancelBulk: (id: string) => jobs.cancelBulk(id),
  }
  return verbs as BulkVerbs
}

/** The same list; a search goes to the server as it is. */
export function createRemoteList(client: Client, list: Jobs['list'], sealer?: Sealer): Jobs['list'] {
  return async (options: ListOptions = {}): Promise<SearchPage> => {
    const { search, cursor, ...query } = objectOf('list', options)
    if (search === undefined) return (await list({ cursor, ...query })) as SearchPage
    const from = cursor === null || cursor === undefined ? {} : { cursor }
    const page = (await client.jobs.list({ ...withoutUndefined(query), ...from, search })) as SearchPage
    const items = await inParallel(page.items, openingAtOnce, (job) => openShown(sealer, job))
    return { ...page, items }
  }
}
