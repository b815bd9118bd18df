import { type ReactNode, useId } from 'react'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { fieldName, matchFields, type WrittenMatch, type WrittenMatches } from './match-text.ts'

const ways = ['anything', 'is', 'beginsWith', 'oneOf'] as const

export interface MatchFormProps {
  readonly value: WrittenMatches
  readonly onChange: (value: WrittenMatches) => void
}

/** Which venues are meant: for each part of their name, how it has to be. */
export function MatchForm({ value, onChange }: MatchFormProps): ReactNode {
  const say = useWords(monitorWords)
  return (
    <fieldset className="monitor-match">
      <legend>{say('match')}</legend>
      {matchFields.map((field) => (
        <MatchRow
          key={field}
          name={fieldName(field, say)}
          value={value[field]}
          onChange={(one) => onChange({ ...value, [field]: one })}
        />
      ))}
    </fieldset>
  )
}

interface MatchRowProps {
  readonly name: string
  readonly value: WrittenMatch
  readonly onChange: (value: WrittenMatch) => void
}

function MatchRow({ name, value, onChange }: MatchRowProps): ReactNode {
  const say = useWords(monitorWords)
  const id = useId()
  return (
    <div>
      <label htmlFor={id}>{name}</label>
      <select
        aria-label={say('how', { field: name })}
        value={value.how}
        onChange={(event) => onChange({ ...value, how: event.target.value as WrittenMatch['how'] })}
      >
        {ways.map((way) => (
          <option key={way} value={way}>
            {say(way)}
          </option>
        ))}
      </select>
      <input
        id={id}
        value={value.how === 'anything' ? '' : value.value}
        disabled={value.how === 'anything'}
        placeholder={value.how === 'oneOf' ? say('commas') : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange({ ...value, value: event.target.value })}
      />
    </div>
  )
}
