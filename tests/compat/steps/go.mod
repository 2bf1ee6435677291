module kavka/steps

go 1.26.0
