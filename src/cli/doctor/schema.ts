import { beforeBaseline, copyMark, type MigrationStatus } from '../../storage/index.ts'
import { type Finding, ok, problem, warning } from './finding.ts'

/** Where the schema of a database stands. `migrates`: a server started here brings it up to date itself. */
export function judgeSchema(
  name: string,
  { current, latest, pending, isRunnable, isBeforeBaseline }: MigrationStatus,
  migrates: boolean,
): Finding {
  if (isBeforeBaseline) {
    const [fact, ...advice] = beforeBaseline.split(/(?<=\.) /)
    return problem('schema', name, `It ${fact}`, advice.join(' '))
  }
  if (current === latest) return ok('schema', name, `It is up to date: schema ${current}.`)
  if (isRunnable)
    return warning(
      'schema',
      name,
      `It has schema ${current}, made by a newer Signalbox; this one (${latest}) may still work on it.`,
      'Upgrade Signalbox here too, before the next release.',
    )
  if (current === copyMark)
    return problem(
      'schema',
      name,
      '`signalbox copy` is filling it, and has not ended.',
      'Run the same copy again: it goes on from where it was.',
    )
  if (current > latest)
    return problem(
      'schema',
      name,
      `It has schema ${current}, and this Signalbox knows ${latest}: a newer one made it.`,
      'Upgrade Signalbox here; the database stays as it is.',
    )
  const advice = 'Run `signalbox migrate up`.'
  const steps = `${pending.length} ${pending.length === 1 ? 'step is' : 'steps are'} missing`
  if (migrates && current === 0) return ok('schema', name, 'There is no schema yet; serve makes it at start.')
  if (migrates)
    return warning(
      'schema',
      name,
      `It has schema ${current} of ${latest}: ${steps}, which serve applies at start.`,
      `${advice} Or leave it to serve.`,
    )
  return problem(
    'schema',
    name,
    current === 0 ? 'There is no schema.' : `It has schema ${current} of ${latest}: ${steps}.`,
    advice,
  )
}
