import { type KeyboardEvent, type ReactNode, type Ref, useEffect, useId, useState } from 'react'

export interface SelectProps<Value extends string> {
  readonly label: string
  readonly value: Value
  readonly options: readonly (readonly [value: Value, text: string])[]
  readonly onChange: (value: Value) => void
  /** The label is for screen readers alone. */
  readonly bare?: boolean
}

/** A choice among a few. */
export function Select<Value extends string>({
  label,
  value,
  options,
  onChange,
  bare = false,
}: SelectProps<Value>): ReactNode {
  const id = useId()
  return (
    <span className="select">
      <label htmlFor={id} className={bare ? 'hidden' : undefined}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value as Value)}>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </span>
  )
}

export interface InputProps {
  readonly label: string
  readonly value: string
  /** Called when it is entered (Enter, or the field is left), or while typing with `live`. */
  readonly onChange: (value: string) => void
  readonly placeholder?: string
  readonly type?: 'text' | 'search' | 'password' | 'number'
  readonly live?: boolean
  readonly bare?: boolean
  readonly mono?: boolean
  readonly list?: string
  readonly ref?: Ref<HTMLInputElement>
  /** The fault of the value, or its effect: shown under the field. */
  readonly hint?: ReactNode
  /** Whether the hint describes a fault. */
  readonly invalid?: boolean
}

/** A line of text. */
export function Input({
  label,
  value,
  onChange,
  placeholder,
  type = 'text',
  live = false,
  bare = false,
  mono = false,
  list,
  ref,
  hint,
  invalid = false,
}: InputProps): ReactNode {
  const id = useId()
  const [written, write] = useState(value)
  useEffect(() => write(value), [value])
  const enter = () => {
    if (written !== value) onChange(written)
  }
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Enter' && !event.nativeEvent.isComposing) onChange(written)
    if (event.key === 'Escape') event.currentTarget.blur()
  }
  return (
    <span className="input">
      <label htmlFor={id} className={bare ? 'hidden' : undefined}>
        {label}
      </label>
      <input
        id={id}
        ref={ref}
        type={type}
        list={list}
        className={mono ? 'mono' : undefined}
        value={written}
        placeholder={placeholder}
        autoComplete="off"
        spellCheck={false}
        aria-invalid={invalid || undefined}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={(event) => {
          write(event.target.value)
          if (live) onChange(event.target.value)
        }}
        onBlur={live ? undefined : enter}
        onKeyDown={live ? undefined : onKeyDown}
      />
      {hint !== undefined && (
        <span id={`${id}-hint`} className={invalid ? 'field-hint bad' : 'field-hint'} role="status">
          {hint}
        </span>
      )}
    </span>
  )
}
