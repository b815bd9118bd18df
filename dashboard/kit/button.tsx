import type { ReactNode } from 'react'
import { Icon, type IconName } from './icon.tsx'

export interface ButtonProps {
  readonly children: ReactNode
  readonly onPress?: (() => void) | undefined
  readonly look?: 'plain' | 'main' | 'danger' | 'quiet'
  readonly icon?: IconName | undefined
  readonly type?: 'button' | 'submit'
  readonly disabled?: boolean | undefined
  /** Why it is disabled: shown in its title and told to screen readers. */
  readonly reason?: string | undefined
  readonly pressed?: boolean | undefined
  readonly label?: string | undefined
}

/** A button. One that cannot be pressed says why and can still be found by keyboard. */
export function Button({
  children,
  onPress,
  look = 'plain',
  icon,
  type = 'button',
  disabled = false,
  reason,
  pressed,
  label,
}: ButtonProps): ReactNode {
  return (
    <button
      type={type}
      className={`button ${look}`}
      aria-disabled={disabled || undefined}
      aria-pressed={pressed}
      aria-label={label}
      title={disabled ? reason : label}
      onClick={(event) => {
        if (!disabled) onPress?.()
        else event.preventDefault()
      }}
    >
      {icon && <Icon name={icon} />}
      {children}
      {disabled && reason !== undefined && <span className="hidden">{reason}</span>}
    </button>
  )
}
