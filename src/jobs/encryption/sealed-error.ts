import { decodeError } from '../decode-job.ts'

/**
 * Errors are kept in plain, for operators have to read them. What handlers throw is their own business; but what a
 * schema says of a payload quotes it, as in `Expected "none" but received "4111…"`, and the payload is sealed. So of
 * these only what kind they are is kept; whoever runs the worker hears all of it in its events.
 */
export function withoutQuotes(jobId: string, json: string): string {
  if (!codes.some((code) => json.includes(`"${code}"`))) return json
  const { code, name } = decodeError(json)!
  const says = code === undefined ? undefined : told.get(code)
  if (says === undefined) return json
  const message = `The payload kept for job "${jobId}" ${says}. What the schema said is not kept, for it may quote what is sealed; see the worker's events.`
  return JSON.stringify({ ...(name === undefined ? {} : { name }), message, code })
}

const told: ReadonlyMap<string, string> = new Map([
  ['invalid_payload', 'does not fit its kind'],
  ['schema_failed', 'could not be looked at, because the schema of its kind failed'],
])
const codes = [...told.keys()]
