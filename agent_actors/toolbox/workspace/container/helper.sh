# The helper of a container workspace. It is the first process of the container, so that the
# container ends when its standard input closes: also when the runtime has been killed.
#
# A request is a line with a number, and that number of lines of shell code, which call the functions
# below. Content to write follows. The reply is the output, a line break, the token and the status.
# Only POSIX sh, tar and the coreutils are needed.

LC_ALL=C TZ=UTC0
export LC_ALL TZ
token=$1
format='%f|%d|%i|%s|%y|%z|%a|%u:%g'

# Enter a directory, unless one of its components is now a symlink (status 3).
enter() {
  cd -P -- "$1" 2>/dev/null && [ "$PWD" = "$1" ] || return 3
}

# prepare DIRECTORY: create a root, which must not contain symlinks.
prepare() {
  [ -d "$1" ] || mkdir -p -- "$1" || return
  enter "$1" && return
  echo "its path without symlinks is $(cd -P -- "$1" && echo "$PWD")"
  return 1
}

# look DIRECTORY NAME...: follow the names until one of them is not a directory.
look() {
  enter "$1" || return
  shift
  index=0
  for name; do
    if [ -L "./$name" ]; then
      printf 'link %s\n' "$index"
      readlink -n -- "./$name"
      return
    elif [ -d "./$name" ]; then
      cd -P -- "./$name" || return
    elif [ -e "./$name" ]; then
      printf 'other %s\n' "$index"
      return
    else
      printf 'missing %s\n' "$index"
      return
    fi
    index=$((index + 1))
  done
  printf 'directory %s\n' "$index"
}

# states DIRECTORY NAME...: the states of entries; missing ones are left out.
states() {
  enter "$1" || return
  shift
  stat -c "$token|$format|%n" -- "$@" 2>/dev/null
  return 0
}

# content DIRECTORY NAME OFFSET LIMIT: a part of a regular file, after its state.
content() {
  enter "$1" || return
  [ -f "./$2" ] && [ ! -L "./$2" ] || return 4
  exec 3<"./$2" || return
  [ "$(readlink /proc/self/fd/3)" = "$1/$2" ] || return 4
  stat -L -c "$format" "/proc/self/fd/3" || return
  if [ "$3" -gt 0 ]; then
    tail -c "+$(($3 + 1))" <&3 | head -c "$4" | base64
  else
    head -c "$4" <&3 | base64
  fi
}

# write DIRECTORY TEMPORARY SIZE NAME REPLACE TIME [MODE OWNER]: write a file from standard input.
# All of the input is read, even after an error.
write() {
  head -c "$3" | {
    write_from_pipe "$@"
    status=$?
    cat >/dev/null
    exit "$status"
  }
}

write_from_pipe() {
  enter "$1" || return
  [ -z "$7" ] || umask 077
  set -C
  : >"./$2" || return
  set +C
  if fill_and_rename "$@"; then
    stat -c "$format" -- "./$4"
  else
    status=$?
    rm -f -- "./$2"
    return "$status"
  fi
}

fill_and_rename() {
  dd of="./$2" bs=65536 conv=notrunc,fsync status=none || return
  [ "$(wc -c <"./$2")" -eq "$3" ] || return 1
  if [ -n "$7" ]; then
    chown -- "$8" "./$2" 2>/dev/null
    chmod -- "$7" "./$2" || return
  fi
  # Where `touch` knows fractions of seconds, no two writes of a file have the same time.
  touch -d "$6" -- "./$2" 2>/dev/null
  if [ -L "./$4" ] || [ -d "./$4" ]; then return 4; fi
  if [ "$5" = replace ]; then
    mv -f -- "./$2" "./$4"
  else
    if [ -e "./$4" ]; then return 5; fi
    ln -- "./$2" "./$4" && rm -f -- "./$2"
  fi
}

# create DIRECTORY NAME: create a directory.
create() {
  enter "$1" || return
  mkdir -- "./$2"
}

# discard DIRECTORY NAME: remove an entry itself.
discard() {
  enter "$1" || return
  if [ -d "./$2" ] && [ ! -L "./$2" ]; then
    rmdir -- "./$2"
  else
    rm -- "./$2"
  fi
}

# entries DIRECTORY...: the kinds and names of the entries of each directory, which `/` ends.
entries() {
  for directory; do
    if enter "$directory"; then
      for name in * .[!.]* ..?*; do
        if [ -L "./$name" ]; then
          printf 'l%s\0' "$name"
        elif [ -d "./$name" ]; then
          printf 'd%s\0' "$name"
        elif [ -f "./$name" ]; then
          printf 'f%s\0' "$name"
        elif [ -e "./$name" ]; then
          printf 'o%s\0' "$name"
        fi
      done
    fi
    printf '/\0'
  done
}

# archive DIRECTORY NAME...: files as a tar archive; missing ones are left out.
archive() {
  enter "$1" || return
  shift
  tar -cf - -- "$@" 2>/dev/null | base64
}

# processes: the id, the parent and the command of each process, except the helper's.
processes() {
  read -r own _ </proc/self/stat
  for directory in /proc/[0-9]*; do
    case $directory in /proc/1 | "/proc/$own") continue ;; esac
    parent= state= command=
    {
      while read -r key value _; do
        case $key in
          State:) state=$value ;;
          PPid:)
            parent=$value
            break
            ;;
        esac
      done <"$directory/status"
      while IFS= read -r line || [ -n "$line" ]; do
        case $line in
          *AGENT_ACTORS_COMMAND=*)
            command=${line##*AGENT_ACTORS_COMMAND=}
            rest=${command#????????????????}
            command=${command%"$rest"}
            break
            ;;
        esac
      done <"$directory/environ"
    } 2>/dev/null
    case $state in
      '' | Z | X) ;;
      *) printf '%s %s %s\n' "${directory#/proc/}" "$parent" "$command" ;;
    esac
  done
}

# signal NAME PID...: send a signal; processes that have ended are left out.
signal() {
  number=$1
  shift
  for pid; do
    kill -s "$number" -- "$pid" 2>/dev/null
  done
  return 0
}

while IFS= read -r lines; do
  code=
  while [ "$lines" -gt 0 ]; do
    IFS= read -r line || exit 0
    code="$code$line
"
    lines=$((lines - 1))
  done
  (eval "$code")
  printf '\n%s %s\n' "$token" "$?"
done
