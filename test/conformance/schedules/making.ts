/** Schedules and their runs for the contracts: fields that the test gives, and sensible defaults. */
import assert from 'node:assert/strict'
import type { Fired, NewSchedule, ScheduleRecord } from '../../../src/jobs/index.ts'
import type { Stores } from '../../../src/storage/backend.ts'
import { aJob, until } from '../jobs/making.ts'

export function aSchedule(name: string, schedule: Partial<NewSchedule> = {}): NewSchedule {
  return { name, doc: '{"cron":"* * * * *"}', isPaused: false, nextAt: 1_000, ...schedule }
}

/** Writes a new schedule. Returns its version. */
export async function made(
  { schedules }: Stores,
  name: string,
  schedule?: Partial<NewSchedule>,
): Promise<number> {
  const version = await schedules.put(aSchedule(name, schedule), 0)
  assert.ok(version !== null, `${name} is made`)
  assert.ok(Number.isSafeInteger(version) && version > 0, `${version} is a version`)
  return version
}

export async function findSchedule({ schedules }: Stores, name: string): Promise<ScheduleRecord> {
  const found = await schedules.find(name)
  assert.ok(found, `${name} is there`)
  return found
}

/** A run that adds one job. */
export function aRun(name: string, seen: number, run: Partial<Fired> = {}): Fired {
  return { name, seen, force: false, nextAt: 2_000, slotAt: 1_000, jobs: [aJob()], ...run }
}

export async function readClock({ schedules }: Stores): Promise<number> {
  return (await schedules.nextDue()).now
}

/** Waits until the store's clock shows another millisecond. */
export async function nextMoment(stores: Stores): Promise<void> {
  const before = await readClock(stores)
  await until('the store’s clock moves on', async () => (await readClock(stores)) > before)
}

export function names(schedules: readonly { readonly name: string }[]): string[] {
  return schedules.map(({ name }) => name)
}
