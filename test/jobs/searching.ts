import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Box, open } from '../../src/index.ts'
import type { BulkOperation, Jobs } from '../../src/jobs/index.ts'
import { within } from '../support/deadline.ts'

/** Boxes on which searches and bulk operations are tried. */
export const engines = ['memory', 'sqlite'] as const

export interface Ground extends AsyncDisposable {
  readonly box: Box
  /** Another box on the same file; SQLite alone. */
  another(): Promise<Box>
}

export async function openGround(engine: (typeof engines)[number]): Promise<Ground> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-search-'))
  const url = engine === 'memory' ? 'memory:' : (`sqlite:${join(folder, 'jobs.db')}` as const)
  const box = await open(url)
  const others: Box[] = []
  return {
    box,
    async another() {
      const other = await open(url)
      others.push(other)
      return other
    },
    async [Symbol.asyncDispose]() {
      for (const opened of [...others, box]) await opened.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The operation once it has ended. */
export async function ended(jobs: Pick<Jobs, 'bulkOperation'>, id: string): Promise<BulkOperation> {
  const look = async () => {
    for (;;) {
      const operation = await jobs.bulkOperation(id)
      if (operation !== undefined && operation.state !== 'running') return operation
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  return within(30_000, 'the end of the operation', look())
}
