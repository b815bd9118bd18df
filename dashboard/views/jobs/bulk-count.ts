import { useEffect, useState } from 'react'
import type { WireBulkCount } from '../../../src/http/client/index.ts'
import { useClient } from '../../shell/session.ts'
import { type Act, addCounts, noCounts, type StateCounts } from './bulk-states.ts'

/** How many jobs a search matches, by state, while the server still counts and when it is done. */
export interface BulkCounting {
  readonly counts: StateCounts
  readonly scanned: number
  /** The counts are exact: the server looked at every job. */
  readonly isComplete: boolean
  readonly error?: unknown
}

/** Counts part by part, because one answer covers some 50,000 jobs at most. */
export function useBulkCount(act: Act, search: string): BulkCounting {
  const client = useClient()
  const [counting, setCounting] = useState<BulkCounting>(begin)
  useEffect(() => {
    let isGone = false
    const count = async () => {
      let known = begin
      let cursor: string | null = null
      do {
        const part: WireBulkCount = await client.jobs.bulk({ action: act, search, dryRun: true, cursor })
        if (isGone) return
        cursor = part.cursor
        known = {
          counts: addCounts(known.counts, part.states),
          scanned: known.scanned + part.scanned,
          isComplete: cursor === null,
        }
        setCounting(known)
      } while (cursor !== null)
    }
    setCounting(begin)
    count().catch((error: unknown) => {
      if (!isGone) setCounting((known) => ({ ...known, error }))
    })
    return () => {
      isGone = true
    }
  }, [client, act, search])
  return counting
}

const begin: BulkCounting = { counts: noCounts, scanned: 0, isComplete: false }
