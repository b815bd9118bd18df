import { jobStates, type WireJob } from '../../../src/http/client/index.ts'
import type { Query } from '../../shell/router.tsx'

/** The filters in the address. */
export interface JobFilters {
  readonly queue?: string
  readonly kind?: string
  readonly state?: WireJob['state']
  readonly search?: string
}

/** Whatever stands in the address, it is a question the server understands; a state that is none is left out. */
export function filtersOf({ queue, kind, state, search }: Query): JobFilters {
  return {
    ...(queue ? { queue } : {}),
    ...(kind ? { kind } : {}),
    ...(jobStates.includes(state as never) ? { state: state as WireJob['state'] } : {}),
    ...(search ? { search } : {}),
  }
}

/** A search without terms is refused; every job has an id. */
export const everyJob = 'id:*'

/** The same as one search, for acts on everything that matches: there, all is said in the grammar. */
export function searchOf({ queue, kind, state, search }: JobFilters): string {
  const terms = [
    state && `state:${state}`,
    queue && `queue:${quote(queue)}`,
    kind && `kind:${quote(kind)}`,
    search?.trim(),
  ]
  return terms.filter(Boolean).join(' ') || everyJob
}

/** Always in quotes, so that a star is a star. */
function quote(value: string): string {
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
