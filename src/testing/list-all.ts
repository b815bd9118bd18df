import type { Job, Jobs, ListOptions } from '../jobs/index.ts'

/** All the jobs that there are, or all of those that are meant; newest first. */
export async function listAll(
  jobs: Pick<Jobs, 'list'>,
  filter: Pick<ListOptions, 'queue' | 'state'> = {},
): Promise<readonly Job[]> {
  const all: Job[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<Jobs['list']>> = await jobs.list({ ...filter, limit: 500, cursor })
    all.push(...page.items)
    cursor = page.cursor
  } while (cursor !== null)
  return all
}
