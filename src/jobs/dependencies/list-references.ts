import { SignalboxError } from '../../core/errors.ts'
import { text } from '../../core/options.ts'
import type { NewJob } from '../job-store.ts'

/**
 * Jobs of one list that wait for each other. A job may be given a `ref`, a name that counts within its list, and others
 * there may wait for it by that name; what is no ref of the list is the id of a job that was added before.
 */

/** The same records, with ids in the place of refs. Throws `invalid_argument` for a ref used twice and for a ring. */
export function resolveRefs(
  name: string,
  refs: readonly (string | undefined)[],
  records: readonly NewJob[],
): readonly NewJob[] {
  if (refs.every((ref) => ref === undefined)) return records
  const places = new Map<string, number>()
  for (const [at, ref] of refs.entries()) {
    if (ref === undefined) continue
    text(`${name}[${at}].ref`, ref)
    const before = places.get(ref)
    if (before !== undefined) throw usedTwice(name, ref, before, at)
    places.set(ref, at)
  }
  refuseRings(name, places, records)
  return records.map((record) => {
    if (!record.dependsOn || record.dependsOn.jobs.length === 0) return record
    const jobs = record.dependsOn.jobs.map((dependency) => {
      const place = places.get(dependency)
      return place === undefined ? dependency : records[place]!.id
    })
    return { ...record, dependsOn: { ...record.dependsOn, jobs: [...new Set(jobs)] } }
  })
}

/** Walks along the refs without recursion: a list may be a chain of thousands. */
function refuseRings(name: string, places: ReadonlyMap<string, number>, records: readonly NewJob[]): void {
  const firstOf = sharedPlaces(records)
  const waitsFor = (at: number) =>
    (records[at]!.dependsOn?.jobs ?? []).flatMap((dependency) => {
      const place = places.get(dependency)
      return place === undefined ? [] : [firstOf[place]!]
    })
  const done = new Set<number>()
  for (const start of records.keys()) {
    const path: { readonly at: number; readonly rest: number[] }[] = []
    const onPath = new Set<number>()
    const enter = (at: number) => {
      path.push({ at, rest: waitsFor(at) })
      onPath.add(at)
    }
    if (!done.has(start)) enter(start)
    while (path.length > 0) {
      const { at, rest } = path.at(-1)!
      const next = rest.pop()
      if (next === undefined) {
        path.pop()
        onPath.delete(at)
        done.add(at)
      } else if (onPath.has(next)) {
        const ring = path.slice(path.findIndex((step) => step.at === next)).map((step) => step.at)
        throw goesRound(name, [...ring, next], places)
      } else if (!done.has(next)) enter(next)
    }
  }
}

/** For each job the place of the one that stands for it: of those with the same unique key only the first is written. */
function sharedPlaces(records: readonly NewJob[]): readonly number[] {
  const first = new Map<string, number>()
  return records.map(({ queue, uniqueKey }, at) => {
    if (uniqueKey === null) return at
    const key = JSON.stringify([queue, uniqueKey])
    if (!first.has(key)) first.set(key, at)
    return first.get(key)!
  })
}

const shownRing = 10

function goesRound(
  name: string,
  ring: readonly number[],
  places: ReadonlyMap<string, number>,
): SignalboxError {
  const nameOf = new Map([...places].map(([ref, at]) => [at, ref]))
  const names = ring.map((at) => `"${nameOf.get(at)}"`)
  const shown = names.length > shownRing ? [...names.slice(0, shownRing), '…'] : names
  return new SignalboxError(
    'invalid_argument',
    `${name}[${ring[0]}].after goes round in a ring, so none of these jobs could ever start: ${shown.join(' waits for ')}.`,
    { details: { option: `${name}[${ring[0]}].after`, ring } },
  )
}

function usedTwice(name: string, ref: string, first: number, second: number): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `${name}[${second}].ref is "${ref}", as is ${name}[${first}].ref; each ref of a list must be its own.`,
    { details: { option: `${name}[${second}].ref` } },
  )
}
