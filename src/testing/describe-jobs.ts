import type { Job } from '../jobs/index.ts'

/** Whether every field of `part` is in `value` too, at every depth; lists must be as long, and their items fit one by one. */
export function fitsPart(value: unknown, part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return Object.is(value, part)
  if (typeof value !== 'object' || value === null || Array.isArray(value) !== Array.isArray(part))
    return false
  if (Array.isArray(part) && part.length !== (value as unknown[]).length) return false
  return Object.entries(part).every(([key, wanted]) => {
    // An undefined field is one that is not there: so it is in JSON.
    const own = Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined
    return fitsPart(own, wanted)
  })
}

const maxTold = 20
const maxPayload = 120

/** The jobs that are there, a line each: those of the kind first. */
export function tellJobs(jobs: readonly Job[], kind: string): readonly string[] {
  if (jobs.length === 0) return ['There are no jobs at all.']
  const sorted = jobs.toSorted((a, b) => Number(b.kind === kind) - Number(a.kind === kind))
  const lines = sorted.slice(0, maxTold).map(tellJob)
  const more = jobs.length - lines.length
  return [
    jobs.length === 1 ? 'There is 1 job:' : `There are ${jobs.length} jobs, newest first:`,
    ...lines,
    ...(more > 0 ? [`  and ${more} more`] : []),
  ]
}

function tellJob({ kind, queue, state, payload, error, attempt, maxAttempts }: Job): string {
  const json = JSON.stringify(payload)
  const shown = json.length > maxPayload ? `${json.slice(0, maxPayload)}…` : json
  const why =
    error === null ? '' : ` · ${error.code ?? error.name ?? 'error'}: ${error.message.split('\n')[0]}`
  return `  ${kind} in "${queue}", ${state} (attempt ${attempt} of ${maxAttempts}): ${shown}${why}`
}
