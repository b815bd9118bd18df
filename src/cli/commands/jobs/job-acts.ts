import { Command } from 'commander'
import { SignalboxError } from '../../../core/errors.ts'
import type { FoundJob, JobDependency } from '../../../jobs/index.ts'
import type { Printer } from '../../print.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from '../place.ts'

/** `signalbox jobs show`: one job, with what it waits for and what its attempts said. */
export function showCommand(printer: Printer): Command {
  const command = new Command('show')
    .description('show one job: its state, what it carries, what it waits for, what it said')
    .argument('<id>', 'the job')
    .addHelpText('after', '\nExamples:\n  signalbox jobs show 01k9z3v8qe0m4t9wq3rb5c7xkd')
    .action(async (id: string, { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      const job = await box.jobs.find(id)
      if (job === undefined)
        throw new SignalboxError(
          'not_found',
          `There is no job "${id}": it was never added, or it was pruned.`,
        )
      const { items: logs } = await box.jobs.logs(id, { limit: 100 })
      if (json) return printer.json({ ...job, logs })
      for (const [name, value] of fieldsOf(job)) printer.line(`${name.padEnd(14)}${value}`)
      for (const { attempt, at, level, text } of logs)
        printer.line(`${new Date(at).toISOString()}  attempt ${attempt}  ${level}  ${text}`)
    })
  return addBoxFlags(command)
}

function fieldsOf(job: FoundJob): readonly (readonly [string, string])[] {
  const instant = (at: number | null) => (at === null ? null : new Date(at).toISOString())
  const fields: Record<string, string | null> = {
    id: job.id,
    state: job.state + (job.cancelRequested ? ' (cancellation was asked for)' : ''),
    kind: job.kind,
    queue: job.queue,
    attempt: `${job.attempt} of ${job.maxAttempts}`,
    priority: job.priority === 0 ? null : String(job.priority),
    key: job.uniqueKey,
    limitKey: job.limitKey,
    lock: job.lock && `${job.lock.operation} ${job.lock.resource}`,
    tags: job.tags.length === 0 ? null : job.tags.join(', '),
    added: instant(job.createdAt),
    due: instant(job.runAt),
    started: instant(job.startedAt),
    ended: instant(job.finishedAt),
    worker: job.workerId,
    progress: job.progress && [percentOf(job), job.progress.note].filter(Boolean).join(' '),
    dependencies: describeJobs(job.dependencies),
    dependents: describeJobs(job.dependents),
    payload: JSON.stringify(job.payload),
    result: job.result === null ? null : JSON.stringify(job.result),
    error: job.error && [job.error.code, job.error.message].filter(Boolean).join(': '),
  }
  return Object.entries(fields).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))
}

function percentOf({ progress }: FoundJob): string {
  return progress?.percent === null || progress === null ? '' : `${progress.percent} %`
}

function describeJobs(dependencies: readonly JobDependency[]): string | null {
  return dependencies.length === 0
    ? null
    : dependencies.map(({ id, state }) => `${id} (${state ?? 'gone'})`).join(', ')
}

/** `signalbox jobs retry|cancel ID…`. */
export function actCommand(printer: Printer, act: 'retry' | 'cancel'): Command {
  const about =
    act === 'retry'
      ? 'make jobs that ended ready again, with attempt 0'
      : 'end jobs that do not run, and ask the workers of those that do'
  const command = new Command(act)
    .description(about)
    .argument('<id...>', 'the jobs')
    .addHelpText(
      'after',
      `\nFor all that a search finds: signalbox jobs bulk ${act} --search …\n\nExamples:\n  signalbox jobs ${act} 01k9z3v8qe0m4t9wq3rb5c7xkd`,
    )
    .action(async (ids: readonly string[], { json, ...place }: PlaceFlags) => {
      await using box = await openPlace(command, place)
      for (const id of ids) {
        const answer = { id, ...(await box.jobs[act](id)) }
        if (json) printer.json(answer)
        else
          printer.line(
            `${id}  ${'cancelRequested' in answer && answer.cancelRequested ? 'asked to stop' : answer.state}`,
          )
      }
    })
  return addBoxFlags(command)
}
