import { type ReactNode, useId } from 'react'
import type { WireJob } from '../../../src/http/client/index.ts'
import { State } from '../../kit/state.tsx'
import { jobsWords } from '../../words/jobs.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { type Act, choicesFor, leftAlone, type StateCounts } from './bulk-states.ts'

type JobState = WireJob['state']

export interface StateChoiceProps {
  readonly act: Act
  readonly counts: StateCounts
  readonly chosen: readonly JobState[]
  readonly onChange: (chosen: readonly JobState[]) => void
}

/** How many jobs are in which state, which of these the act takes, and what that does to them. */
export function StateChoice({ act, counts, chosen, onChange }: StateChoiceProps): ReactNode {
  const say = useWords(jobsWords)
  const format = useFormat()
  const id = useId()
  const choices = choicesFor(act, counts)
  const skipped = leftAlone(act, counts)
  const toggle = (state: JobState) =>
    onChange(choices.filter((one) => (one === state ? !chosen.includes(one) : chosen.includes(one))))
  return (
    <fieldset className="state-choice">
      <legend>{say('byState')}</legend>
      {choices.map((state) => (
        <div key={state}>
          <input
            id={`${id}${state}`}
            type="checkbox"
            checked={chosen.includes(state)}
            onChange={() => toggle(state)}
          />
          <label htmlFor={`${id}${state}`}>
            <State name={state} /> {format.number(counts[state])}
          </label>
          {chosen.includes(state) && <Consequence act={act} state={state} />}
        </div>
      ))}
      {skipped.map((state) => (
        <div key={state} className="aside">
          <span>
            <State name={state} /> {format.number(counts[state])}
          </span>
          <span>{say('leftAlone')}</span>
        </div>
      ))}
    </fieldset>
  )
}

/** What a reader may not expect of this act on jobs in this state. */
function Consequence({ act, state }: { readonly act: Act; readonly state: JobState }): ReactNode {
  const say = useWords(jobsWords)
  if (act !== 'retry') return null
  if (state === 'completed') return <strong className="state-warning">{say('runsAgain')}</strong>
  if (state === 'waiting') return <strong className="state-warning">{say('skipsDependencies')}</strong>
  return null
}
