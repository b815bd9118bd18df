import assert from 'node:assert/strict'
import { test } from 'vitest'
import { maxServiceLines, nodeFamilies } from './node-gauges.ts'

/** The values of a metric, by its labels. */
function valuesOf(name: string, families: ReturnType<typeof nodeFamilies>): Readonly<Record<string, number>> {
  const { values } = families.find((family) => family.name === name)!
  return Object.fromEntries(
    values.map(({ labels, value }) => [Object.values(labels as Record<string, string>).join(' '), value]),
  )
}

test('services have waiting tasks, the oldest wait and slots as gauges', () => {
  const families = nodeFamilies([
    {
      namespace: 'shop',
      nodeStates: () => new Map([['ready', 2]]),
      serviceCounts: () => [{ service: 'asr', waiting: 3, oldestWaitMs: 1_500, slots: 8, used: 5 }],
    },
  ])
  assert.deepEqual(valuesOf('signalbox_nodes', families), { 'shop ready': 2 })
  assert.deepEqual(valuesOf('signalbox_tasks_waiting', families), { 'shop asr': 3 })
  assert.deepEqual(valuesOf('signalbox_tasks_oldest_wait_seconds', families), { 'shop asr': 1.5 })
  assert.deepEqual(valuesOf('signalbox_slots', families), { 'shop asr': 8 })
  assert.deepEqual(valuesOf('signalbox_slots_used', families), { 'shop asr': 5 })
})

test('services beyond the bound are added up as other, and those in which tasks wait keep their names', () => {
  const count = maxServiceLines + 10
  const lines = Array.from({ length: count }, (_, at) => ({
    ...{ service: `s${at}`, waiting: at === count - 1 ? 7 : 0 },
    ...{ oldestWaitMs: at === count - 1 ? 9_000 : 0, slots: 2, used: 0 },
  }))
  const families = nodeFamilies([{ namespace: 'shop', serviceCounts: () => lines }])
  const waiting = valuesOf('signalbox_tasks_waiting', families)
  assert.equal(Object.keys(waiting).length, maxServiceLines + 1)
  assert.equal(waiting[`shop s${count - 1}`], 7)
  assert.equal(valuesOf('signalbox_slots', families)['other other'], 20)
})
