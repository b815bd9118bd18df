import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { made } from './making.ts'

/** A process that serves all namespaces can list those with a schedule that will run. */
export function scheduledContract({ open }: Pick<Candidate, 'open'>): void {
  test('a namespace is listed while it has a schedule that will run', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const [due, later, paused, over] = [aNamespace(), aNamespace(), aNamespace(), aNamespace()]
    // The engine's database is shared with other tests, and so are its namespaces.
    const known = async () => {
      const all = new Set(await backend.scheduledNamespaces(10_000))
      return [due, later, paused, over].filter((name) => all.has(name))
    }
    assert.deepEqual(await known(), [])
    await made(backend.within(due), 'a')
    await made(backend.within(due), 'b')
    const version = await made(backend.within(later), 'a', { nextAt: 8_000_000_000_000 })
    await made(backend.within(paused), 'a', { isPaused: true })
    await made(backend.within(over), 'a', { nextAt: null })
    assert.deepEqual(await known(), [due, later])
    assert.equal((await backend.scheduledNamespaces(1)).length, 1)
    const { schedules } = backend.within(later)
    await schedules.put({ name: 'a', doc: '{}', isPaused: true, nextAt: 1_000 }, version)
    await backend.within(due).schedules.remove('a')
    assert.deepEqual(await known(), [due])
    await backend.within(due).schedules.remove('b')
    assert.deepEqual(await known(), [])
  })

  test('of many namespaces with schedules, the one that is due first is listed first', async () => {
    await using backend = await open({ namespace: aNamespace() })
    // Not in the order of their names.
    const [last, middle, first] = [aNamespace(), aNamespace(), aNamespace()].toSorted()
    await made(backend.within(last!), 'a', { nextAt: 500 })
    await made(backend.within(middle!), 'a', { nextAt: 400 })
    await made(backend.within(first!), 'a', { nextAt: 600 })
    await made(backend.within(first!), 'b', { nextAt: 300 })
    const own = [first, middle, last]
    const all = await backend.scheduledNamespaces(10_000)
    assert.deepEqual(
      all.filter((name) => own.includes(name)),
      own,
    )
  })

  test('a closed backend refuses to list namespaces with schedules', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend[Symbol.asyncDispose]()
    await assert.rejects(backend.scheduledNamespaces(1), { code: 'closed' })
  })
}
