import { type ReactNode, useId } from 'react'
import { Icon } from '../../kit/icon.tsx'
import { Text } from '../../kit/text/text.tsx'

export interface FormFieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly hint?: string
  /** The fault of its value. */
  readonly error?: string | undefined
  readonly mono?: boolean
  /** Several lines. */
  readonly long?: boolean
  /** The focus is here when the form opens. */
  readonly first?: boolean
  readonly suggestions?: readonly string[]
}

/** A field of a form: its name above, its hint and its fault below. */
export function FormField({
  label,
  value,
  onChange,
  hint,
  error,
  mono = false,
  long = false,
  first = false,
  suggestions,
}: FormFieldProps): ReactNode {
  const id = useId()
  const common = {
    id,
    value,
    className: mono ? 'mono' : undefined,
    'data-first': first || undefined,
    'aria-invalid': error !== undefined || undefined,
    'aria-describedby': `${id}-about`,
    autoComplete: 'off',
    spellCheck: false,
  }
  return (
    <div className="field schedules-field">
      <label htmlFor={id}>{label}</label>
      {long ? (
        <textarea {...common} rows={6} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input
          {...common}
          list={suggestions && `${id}-list`}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {suggestions && (
        <datalist id={`${id}-list`}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      <p id={`${id}-about`} className={error === undefined ? 'aside' : 'schedules-wrong'}>
        {error === undefined ? (
          hint
        ) : (
          <>
            <Icon name="warning" />
            <Text value={error} />
          </>
        )}
      </p>
    </div>
  )
}
